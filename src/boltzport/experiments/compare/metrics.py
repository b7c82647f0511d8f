"""The metrics of a run that are compared: the paper's columns, log Z and its diagnostics, and the cost."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from boltzport.reporting import RunData

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
"""Metrics of the ensemble, by their names in `evaluation.json`."""
COST = ("target_evaluations", "gradient_evaluations", "gradient_steps", "wall_seconds")
"""Metrics of the cost of the training."""
COMPARED = (*ENSEMBLE, *COST)
BASIN = "basins."
"""Prefix of the metrics of single basins, which are also metrics of the ensemble; each molecule has its own."""
MOST_BASINS = 8
"""Maximum number of basins that are compared, the most populated first."""


class RunMetrics(NamedTuple):
    """The metrics of one run.

    Attributes:
        values: Known metrics by name.
        evaluated: Whether those of the ensemble come from an evaluation, not from the last step of the training.
    """

    values: Mapping[str, float]
    evaluated: bool


def run_metrics(run: RunData) -> RunMetrics:
    """The metrics of a run to compare."""
    names = [*COMPARED, *(name for name in run.metrics if name.startswith(BASIN) and name.endswith(".population"))]
    found = {name: run.metrics.value(name) for name in names}
    known = {name: float(value) for name, value in found.items() if value is not None}
    return RunMetrics(known, run.results is not None)


def basins(run: RunData) -> list[Mapping[str, Any]]:
    """The records of basins in an evaluation."""
    found = run.details.get("basins") or []
    return [basin for basin in found if isinstance(basin, Mapping) and basin.get("name")]
