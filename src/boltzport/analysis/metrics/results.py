"""`Results`: the metrics of an evaluation, in memory, as JSON and as a table."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from boltzport.analysis.metrics.bootstrap import Interval
from boltzport.analysis.metrics.catalogue import parts_of
from boltzport.analysis.metrics.estimates import Estimate, estimate
from boltzport.analysis.metrics.verdicts import verdicts
from boltzport.core.errors import InputError

if TYPE_CHECKING:
    import pandas

LISTED = ("ramachandran", "phi_profile", "torsion_pairs", "torsion_profile", "basins", "temperatures")
"""Groups that are lists of records in JSON, one for each residue, basin or temperature."""
BESIDE = ("basins", "temperatures")
"""Groups whose records contain more than metrics, and are written unchanged."""
DETAILS = (*BESIDE, "coordinates", "basin_agreement", "missing_mass", "reference", "origin", "warnings", "seconds")
"""Names in JSON of everything that is not a metric."""
_LISTS = ("basins", "temperatures", "coordinates", "warnings", "estimates")
_OBJECTS = ("missing_mass", "estimate", "reference", "diagnostics", "rhat", "basin_agreement")
"""Parts of the details that have parts of their own."""
_NESTED = ("missing_mass", "reference", "diagnostics")
"""Those of them whose parts have parts again; elsewhere the same names mean other things."""
_OF_BASIN = ("population", "free_energy")
_OF_TEMPERATURE = ("effective_samples", "mean_energy", "heat_capacity", "free_energy", "entropy")


class Results(Mapping[str, Estimate]):
    """The metrics of an evaluation by name, in order.

    Args:
        estimates: The metrics.
        details: Everything that is not a metric, as plain values by name: `basins`, `temperatures`, `missing_mass`,
            `reference`, `origin`, `coordinates`, `warnings` and `seconds`.
        arrays: Arrays of the figures; see `analysis/evaluation/arrays.py` for their names.

    Example:
        >>> results = Results.from_json({"ess": 0.5, "log_z": -1.25, "intervals": {"ess": [0.4, 0.6]}})
        >>> print(results["ess"])
        ess = 0.5 (0.4 to 0.6)
        >>> [found.name for found in results.values()]
        ['ess', 'log_z']
    """

    def __init__(
        self,
        estimates: Iterable[Estimate],
        *,
        details: Mapping[str, Any] | None = None,
        arrays: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self._estimates = {found.name: found for found in estimates}
        self.details: Mapping[str, Any] = dict(details or {})
        self.arrays: Mapping[str, np.ndarray] = dict(arrays or {})

    def __getitem__(self, name: str) -> Estimate:
        """Return a metric by name.

        Raises:
            KeyError: There is no metric of this name.
        """
        return self._estimates[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._estimates)

    def __len__(self) -> int:
        return len(self._estimates)

    def __str__(self) -> str:
        from boltzport.analysis.metrics.table import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return f"Results({len(self)} metrics)"

    def value(self, name: str) -> float | int | None:
        """Value of a metric; None if there is none."""
        return self._estimates[name].value if name in self._estimates else None

    @property
    def warnings(self) -> list[str]:
        """Warnings about the metrics, one sentence each."""
        return [str(warning) for warning in self.details.get("warnings") or []]

    @property
    def verdicts(self) -> list[str]:
        """Reasons not to trust the metrics of the weights, one sentence each; empty if there are none."""
        return verdicts(self)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a pandas table with one row per metric: value, lower, upper, floor, unit, note.

        Raises:
            InputError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise InputError("to_frame needs pandas: pip install pandas") from error
        rows = [
            {
                "value": found.value,
                "lower": found.interval and found.interval.lower,
                "upper": found.interval and found.interval.upper,
                "floor": found.floor,
                "unit": found.unit,
                "note": found.note,
            }
            for found in self.values()
        ]
        return pandas.DataFrame(rows, index=pandas.Index(list(self), name="metric"))

    def to_json(self) -> dict[str, Any]:
        """Return one JSON object; numbers that are not finite are null.

        Metrics are entries of the object, or of their group; `intervals` has the 95 % intervals and `noise_floor` the
        noise floors by the names of the metrics. `verdicts` are reasons not to trust the weights.
        """
        record: dict[str, Any] = {}
        for name, found in self.items():
            group, of, key = parts_of(name)
            if group in BESIDE:
                continue
            if not group:
                record[key] = found.value
            elif group in LISTED:
                _entry(record.setdefault(group, []), of)[key] = found.value
            else:
                record.setdefault(group, {})[key] = found.value
        for name, detail in self.details.items():
            record[name] = record[name] | detail if name in record else detail
        if "reference" in self.details:
            # These lists are present even for a target without residues.
            record = {"ramachandran": [], "phi_profile": []} | record
        record["intervals"] = {name: list(found.interval) for name, found in self.items() if found.interval is not None}
        record["noise_floor"] = {name: found.floor for name, found in self.items() if found.floor is not None}
        if self.verdicts:
            record["verdicts"] = self.verdicts
        return dict(plain(record))

    @classmethod
    def from_json(cls, record: Mapping[str, Any], *, arrays: Mapping[str, np.ndarray] | None = None) -> "Results":
        """Create results from the output of `to_json`, of this version or an earlier one.

        Args:
            record: The JSON object.
            arrays: Arrays of the figures.

        Raises:
            TypeError: A part of the record has another type than `to_json` gives it.
        """
        intervals, floors = record.get("intervals") or {}, record.get("noise_floor") or {}
        found: list[Estimate] = []
        details: dict[str, Any] = {}
        for name, value in _leaves(record, details):
            bracket = intervals.get(name)
            interval = None if bracket is None else Interval(*(math.nan if end is None else end for end in bracket))
            found.append(estimate(name, value, interval, floor=floors.get(name)))
        _check(details)
        return cls(found, details=details, arrays=arrays)

    @classmethod
    def load(cls, path: Path | str) -> "Results":
        """Load results from the `evaluation.json` of a run, without the arrays.

        Raises:
            InputError: The file is missing or is not JSON.
        """
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"no such file: {path}") from None
        except json.JSONDecodeError as error:
            raise InputError(f"{path} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"{path}: expected a JSON object, got {type(record).__name__}")
        try:
            return cls.from_json(record)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise InputError(f"{path} is damaged: {error}; evaluate the run again") from error


def plain(value: Any) -> Any:
    """Convert to plain numbers, lists and dictionaries, with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _entry(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Record of a name in a list, which is added if it is missing."""
    found = next((entry for entry in entries if entry["name"] == name), None)
    if found is None:
        found = {"name": name}
        entries.append(found)
    return found


def _leaves(record: Mapping[str, Any], details: dict[str, Any]) -> Iterator[tuple[str, float | int | None]]:
    """Metrics of a record, in order; everything else goes to the details."""
    for name, value in record.items():
        if name in ("intervals", "noise_floor", "verdicts"):
            continue
        if name in DETAILS:
            details[name] = value
            yield from _beside(name, value)
        elif value is None or _is_number(value):
            yield name, value
        elif name in LISTED:
            for entry in value:
                of = f"{name}.{entry['name']}"
                yield from ((f"{of}.{key}", number) for key, number in entry.items() if key != "name")
        elif name in ("density_2d", "tica", "wasserstein"):
            numbers = {key: part for key, part in value.items() if part is None or _is_number(part)}
            yield from ((f"{name}.{key}", number) for key, number in numbers.items())
            if rest := {key: part for key, part in value.items() if key not in numbers}:
                details[name] = rest
        else:
            details[name] = value


def _check(details: Mapping[str, Any]) -> None:
    """Check that parts with parts of their own are what they should be; a file may hold anything."""
    for name, value in details.items():
        wrong = (name in _LISTS and not isinstance(value, list | tuple)) or (
            name in _OBJECTS and not isinstance(value, Mapping)
        )
        if wrong and value is not None:
            raise TypeError(f"{name}: got {type(value).__name__}")
        if name == "estimates":
            for entry in value or []:
                _check({"estimate": entry})
        if isinstance(value, Mapping) and name in _NESTED:
            _check(value)


def _beside(name: str, records: Any) -> Iterator[tuple[str, float | int | None]]:
    """Metrics in the records of basins and temperatures."""
    if name == "basins":
        yield from ((f"{name}.{entry['name']}.{key}", entry.get(key)) for entry in records or [] for key in _OF_BASIN)
    elif name == "temperatures":
        for entry in records or []:
            of = f"{name}.{entry['temperature']:g}"
            yield from ((f"{of}.{key}", entry.get(key)) for key in _OF_TEMPERATURE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
