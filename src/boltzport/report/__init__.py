"""Reports: a run directory as one page that opens offline, and its figures as files.

What pages and figures of several runs need as well is public: `comparison` has the style of the house from here.
"""

from boltzport.report.drawing import Artist, Picture
from boltzport.report.figures import (
    EnergyPanel,
    Panel,
    RunCurve,
    Triple,
    density_panels,
    energy_panels,
    ramachandran_panels,
    steps_figure,
    work_figure,
)
from boltzport.report.figures.style import KINDS
from boltzport.report.page import page_environment, write_report
from boltzport.report.pictures import stems, triple
from boltzport.report.rundata import Arrays, RunData, columns, read_results, read_run
from boltzport.report.tables import Write, writer
from boltzport.report.words import as_number, state_in_words

__all__ = [
    "KINDS",
    "Arrays",
    "Artist",
    "EnergyPanel",
    "Panel",
    "Picture",
    "RunCurve",
    "RunData",
    "Triple",
    "Write",
    "as_number",
    "columns",
    "density_panels",
    "energy_panels",
    "page_environment",
    "ramachandran_panels",
    "read_results",
    "read_run",
    "state_in_words",
    "stems",
    "steps_figure",
    "triple",
    "work_figure",
    "write_report",
    "writer",
]
