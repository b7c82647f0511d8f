"""A run directory as the page reads it: what is there, and nothing made up for what is not."""

import json
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from boltzport.errors import InputError
from boltzport.rundir import Row, RunDirectory

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class RunData:
    """What a run left behind.

    Attributes:
        path: The directory.
        config: The resolved configuration.
        config_text: The same as it was written.
        status: State, message, steps.
        steps: What was logged, by name; one value a step, NaN where none was logged.
        ledger: Evaluations of the target by purpose.
        evaluation: Figures of `boltzport evaluate`; empty if it was not run.
        arrays: Its arrays.
        structure: The reference structure as PDB text; None for a toy.
    """

    path: Path
    config: Mapping[str, Any]
    config_text: str
    status: Mapping[str, Any]
    steps: Mapping[str, Float[np.ndarray, " steps"]]
    ledger: Mapping[str, int]
    evaluation: Mapping[str, Any]
    arrays: Arrays
    structure: str | None

    @property
    def name(self) -> str:
        """What was trained."""
        return str(self.config.get("system", self.path.name))

    @property
    def temperature(self) -> float | None:
        """Temperature of a molecule in K; None for a toy."""
        found = self.config.get("molecule", {}).get("temperature")
        return None if found is None else float(found)


def read_run(path: Path) -> RunData:
    """Read a run directory, finished or not, evaluated or not.

    Raises:
        InputError: It is not a run directory, or one of its files cannot be read.
    """
    run = RunDirectory(path)
    config_text = run.require(run.config, "boltzport train").read_text(encoding="utf-8")
    try:
        config = tomllib.loads(config_text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{run.config} is not TOML: {error}") from error
    return RunData(
        path=path,
        config=config,
        config_text=config_text,
        status=_read_json(run.status),
        steps=_columns(list(run.rows())),
        ledger=_read_json(run.ledger),
        evaluation=_read_json(run.evaluation),
        arrays=_read_arrays(run.arrays),
        structure=run.structure.read_text(encoding="utf-8") if run.structure.is_file() else None,
    )


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def _columns(rows: list[Row]) -> dict[str, Float[np.ndarray, " steps"]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([_number(row.get(name)) for row in rows]) for name in names}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read: {error}; run `evaluate` again") from error
