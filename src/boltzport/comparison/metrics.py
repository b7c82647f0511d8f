"""The metrics of a run that are compared: the paper's columns, log Z and its diagnostics, and what the run cost."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from boltzport.report import RunData

ENSEMBLE = (
    "ess",
    "ess_unclipped",
    "pareto_k",
    "log_z",
    "elbo",
    "eubo",
    "nll",
    "ramachandran.mean.kl",
    "ramachandran.mean.kl_reweighted",
    "ramachandran.mean.tv",
    "ramachandran.mean.tv_reweighted",
    "density_2d.kl",
    "density_2d.kl_reweighted",
    "density_2d.tv",
    "density_2d.tv_reweighted",
    "tica.kl",
    "tica.kl_reweighted",
    "wasserstein.torus",
    "wasserstein.torus_reweighted",
    "wasserstein.energy",
    "wasserstein.energy_reweighted",
    "wasserstein.tica",
    "wasserstein.tica_reweighted",
)
"""What is found of the ensemble, by the names that `evaluation.json` has for intervals."""
COST = ("target_evaluations", "gradient_evaluations", "gradient_steps", "wall_seconds")
"""What the training cost."""
COMPARED = (*ENSEMBLE, *COST)
BASIN = "basins."
"""What metrics of single basins begin with; they are of the ensemble too, and each molecule has its own."""
MOST_BASINS = 8
"""Basins that are compared, of the largest populations."""


class RunMetrics(NamedTuple):
    """The metrics of one run.

    Attributes:
        values: By name; what is not known is not there.
        evaluated: Whether those of the ensemble come from an evaluation, and not from the last step of the training.
    """

    values: Mapping[str, float]
    evaluated: bool


def run_metrics(run: RunData) -> RunMetrics:
    """What there is to compare of a run."""
    names = [*COMPARED, *(name for name in run.metrics if name.startswith(BASIN) and name.endswith(".population"))]
    found = {name: run.metrics.value(name) for name in names}
    known = {name: float(value) for name, value in found.items() if value is not None}
    return RunMetrics(known, run.results is not None)


def basins(run: RunData) -> list[Mapping[str, Any]]:
    """The records of basins in an evaluation."""
    found = run.details.get("basins") or []
    return [basin for basin in found if isinstance(basin, Mapping) and basin.get("name")]
