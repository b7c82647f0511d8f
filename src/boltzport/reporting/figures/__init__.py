"""Figures as pure functions: data in, a matplotlib `Figure` out.

Each takes the number of columns of its panels, so that one function serves a desktop and a phone.
"""

from boltzport.reporting.figures.distributions import (
    EnergyPanel,
    energy_figure,
    energy_panels,
    marginal_figure,
    profile_figure,
    weights_figure,
)
from boltzport.reporting.figures.errors import ErrorCurve, errors_figure
from boltzport.reporting.figures.maps import (
    Panel,
    density_figure,
    density_panels,
    ramachandran_figure,
    ramachandran_panels,
    torsions_figure,
)
from boltzport.reporting.figures.matrix import MapRow, map_matrix
from boltzport.reporting.figures.runs import RunCurve, energies_figure, steps_figure, work_figure
from boltzport.reporting.figures.style import Marginal, Triple
from boltzport.reporting.figures.thermodynamics import thermodynamics_figure
from boltzport.reporting.figures.training import path_figure, progress_figure

__all__ = [
    "EnergyPanel",
    "ErrorCurve",
    "MapRow",
    "Marginal",
    "Panel",
    "RunCurve",
    "Triple",
    "density_figure",
    "density_panels",
    "energies_figure",
    "energy_figure",
    "energy_panels",
    "errors_figure",
    "map_matrix",
    "marginal_figure",
    "path_figure",
    "profile_figure",
    "progress_figure",
    "ramachandran_figure",
    "ramachandran_panels",
    "steps_figure",
    "thermodynamics_figure",
    "torsions_figure",
    "weights_figure",
    "work_figure",
]
