"""The figures of a run that are compared: the paper's columns, log Z and its diagnostics, and what the run cost."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from boltzport.report import RunData, as_number

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
FIGURES = (*ENSEMBLE, *COST)
BASIN = "basins."
"""What figures of single basins begin with; they are of the ensemble too, and each molecule has its own."""
MOST_BASINS = 8
"""Basins that are compared, of the largest populations."""


class RunFigures(NamedTuple):
    """The figures of one run.

    Attributes:
        values: By name; what is not known is not there.
        evaluated: Whether those of the ensemble come from an evaluation, and not from the last step of the training.
    """

    values: Mapping[str, float]
    evaluated: bool


def run_figures(run: RunData) -> RunFigures:
    """What there is to compare of a run."""
    evaluated = bool(run.evaluation)
    found = {name: _within(run.evaluation, name.split(".")) if evaluated else _last(run, name) for name in ENSEMBLE}
    purposes = ("startup", "training")
    gradients = sum(run.ledger.get(f"{purpose}_gradients", 0) for purpose in purposes) if run.ledger else None
    found |= {
        # Former evaluations of the flow are in the ledger too, and are no cost of the training.
        "target_evaluations": _first(
            as_number(run.evaluation.get("target_evaluations")), _last(run, "evaluations"), run.ledger.get("training")
        ),
        "gradient_evaluations": gradients,
        "gradient_steps": _first(
            as_number(run.evaluation.get("gradient_steps")),
            as_number(run.status.get("gradient_steps")),
            _last(run, "gradient_steps"),
        ),
        "wall_seconds": _first(
            as_number(run.evaluation.get("wall_seconds")),
            as_number(run.status.get("seconds")),
            _last(run, "seconds"),
        ),
    }
    found |= {f"{BASIN}{basin['name']}.population": as_number(basin.get("population")) for basin in basins(run)}
    return RunFigures({name: float(value) for name, value in found.items() if value is not None}, evaluated)


def basins(run: RunData) -> list[Mapping[str, Any]]:
    """The records of basins in an evaluation."""
    found = run.evaluation.get("basins") or []
    return [basin for basin in found if isinstance(basin, Mapping) and basin.get("name")]


def _within(record: Mapping[str, Any], path: Sequence[str]) -> float | None:
    """A number within records; an entry of a list is found by its name."""
    found: Any = record
    for key in path:
        if isinstance(found, list):
            found = next((entry for entry in found if isinstance(entry, Mapping) and entry.get("name") == key), None)
        else:
            found = found.get(key) if isinstance(found, Mapping) else None
    return as_number(found)


def _last(run: RunData, name: str) -> float | None:
    values = run.steps.get(name)
    return float(values[-1]) if values is not None and len(values) and np.isfinite(values[-1]) else None


def _first(*values: float | int | None) -> float | int | None:
    return next((value for value in values if value is not None), None)
