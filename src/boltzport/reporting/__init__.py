"""Reports: a run directory as one page that opens offline, with its figures as files.

The public names are shared with pages and figures of several runs: `experiments.compare` uses the same style.
"""

from boltzport.reporting.drawing import Artist, Picture
from boltzport.reporting.figures import (
    EnergyPanel,
    ErrorCurve,
    MapRow,
    Panel,
    RunCurve,
    Triple,
    density_panels,
    energies_figure,
    energy_panels,
    errors_figure,
    map_matrix,
    ramachandran_panels,
    steps_figure,
    work_figure,
)
from boltzport.reporting.figures.style import KINDS
from boltzport.reporting.findings import verdicts
from boltzport.reporting.page import page_environment, write_report
from boltzport.reporting.pictures import stems, triple
from boltzport.reporting.rundata import Arrays, RunData, columns, read_ledger, read_results, read_run
from boltzport.reporting.tables import Write, writer
from boltzport.reporting.words import as_number, state_in_words

__all__ = [
    "KINDS",
    "Arrays",
    "Artist",
    "EnergyPanel",
    "ErrorCurve",
    "MapRow",
    "Panel",
    "Picture",
    "RunCurve",
    "RunData",
    "Triple",
    "Write",
    "as_number",
    "columns",
    "density_panels",
    "energies_figure",
    "energy_panels",
    "errors_figure",
    "map_matrix",
    "page_environment",
    "ramachandran_panels",
    "read_ledger",
    "read_results",
    "read_run",
    "state_in_words",
    "stems",
    "steps_figure",
    "triple",
    "verdicts",
    "work_figure",
    "write_report",
    "writer",
]
