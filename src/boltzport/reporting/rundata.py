"""The contents of a run directory for the page; missing files are left out."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from boltzport.analysis.metrics import METRICS, Estimate, Results, estimate
from boltzport.core.arrays import read_arrays
from boltzport.core.errors import InputError
from boltzport.core.files import Row, RunDirectory, read_json
from boltzport.targets import Ledger

Arrays = Mapping[str, np.ndarray]
OF_RUN = ("gradient_steps", "failed")
"""Metrics that a step logs for the whole run, or for itself alone."""


@dataclass(frozen=True, kw_only=True)
class RunData:
    """Contents of a run directory.

    Attributes:
        path: The directory.
        config: The resolved configuration.
        config_text: The configuration as TOML text.
        status: State, message and number of steps.
        steps: Logged values by name, one for each step; NaN where none was logged.
        ledger: Number of target evaluations by purpose.
        results: Results of the last evaluation; None if there was none.
        structure: The reference structure as PDB text; None for a toy.
    """

    path: Path
    config: Mapping[str, Any]
    config_text: str
    status: Mapping[str, Any]
    steps: Mapping[str, Float[np.ndarray, " steps"]]
    ledger: Mapping[str, int]
    results: Results | None
    structure: str | None

    @property
    def arrays(self) -> Arrays:
        """Arrays of the figures; empty if the run was not evaluated."""
        return {} if self.results is None else self.results.arrays

    @property
    def details(self) -> Mapping[str, Any]:
        """Results of the evaluation that are not metrics; empty if there was none."""
        return {} if self.results is None else self.results.details

    @cached_property
    def metrics(self) -> Results:
        """All known metrics: those of the evaluation, or else of the last step, and the cost."""
        cost = {
            "target_evaluations": Ledger(dict(self.ledger)).cost if self.ledger else None,
            "gradient_evaluations": Ledger(dict(self.ledger)).cost_gradients if self.ledger else None,
            "gradient_steps": self.status.get("gradient_steps"),
            "wall_seconds": self.status.get("seconds"),
        }
        found = dict(self.results) if self.results is not None else _last_step(self.steps)
        known = {name: entry for name, entry in found.items() if entry.value is not None}
        spent = {name: estimate(name, value) for name, value in cost.items() if value is not None}
        return Results((spent | known).values())

    @property
    def name(self) -> str:
        """Name of the system."""
        return str(self.config.get("system", self.path.name))

    @property
    def temperature(self) -> float | int | None:
        """Temperature of a molecule in K; None for a toy."""
        found = self.config.get("molecule", {}).get("temperature")
        return None if found is None else float(found)


def read_run(path: Path) -> RunData:
    """Read a run directory, finished or not, evaluated or not.

    Raises:
        InputError: It is not a run directory, or one of its files cannot be read.
    """
    run = RunDirectory(path)
    run.require(run.config, "boltzport train")
    try:
        config_text = run.config.read_text(encoding="utf-8")
        config = tomllib.loads(config_text)
    except (ValueError, OSError) as error:
        raise InputError(f"{run.config} is not TOML: {error}") from error
    return RunData(
        path=path,
        config=config,
        config_text=config_text,
        status=_read_json(run.status),
        steps=columns(run.rows()),
        ledger=read_ledger(run),
        results=read_results(run),
        structure=run.structure.read_text(encoding="utf-8", errors="replace") if run.structure.is_file() else None,
    )


def _read_json(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def read_results(run: RunDirectory) -> Results | None:
    """The last evaluation of a run with its arrays; None if there was none.

    Raises:
        InputError: One of its files cannot be read.
    """
    record = _read_json(run.evaluation)
    try:
        return Results.from_json(record, arrays=_read_arrays(run.arrays)) if record else None
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{run.evaluation} is damaged; run `boltzport evaluate {run.path}` again") from error


def read_ledger(run: RunDirectory) -> dict[str, int]:
    """Number of target evaluations by purpose; empty if there is no ledger.

    Raises:
        InputError: It is damaged.
    """
    record = _read_json(run.ledger)
    if not all(isinstance(value, int) and value >= 0 for value in record.values()):
        raise InputError(f"{run.ledger} is damaged: expected numbers of evaluations")
    return record


def columns(rows: Iterable[Row]) -> dict[str, Float[np.ndarray, " steps"]]:
    """Logged values by name; NaN where a step has no such value."""
    rows = list(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([_number(row.get(name)) for row in rows]) for name in names}


def _last_step(steps: Mapping[str, Float[np.ndarray, " steps"]]) -> dict[str, Estimate]:
    last = {name: float(values[-1]) for name, values in steps.items() if name in METRICS and len(values)}
    return {name: estimate(name, value) for name, value in last.items() if name not in OF_RUN}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    return read_arrays(path, what="run `evaluate` again") if path.is_file() else {}
