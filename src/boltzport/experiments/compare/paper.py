"""The paper's tables with runs beside them."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from boltzport.analysis.metrics import Interval, metric
from boltzport.core.errors import InputError
from boltzport.core.files import finite
from boltzport.experiments.compare.compare import Comparison, TargetComparison
from boltzport.experiments.compare.conventions import (
    CONVENTIONS,
    MEASURED,
    PAPER_MEASURE,
    conventions_text,
    missing_run,
    shortcomings,
)
from boltzport.experiments.compare.groups import Group
from boltzport.experiments.compare.spread import Spread
from boltzport.reporting import writer

ROWS = (
    "target_evaluations",
    "wall_seconds",
    "ess",
    "nll",
    "elbo",
    "log_z",
    "eubo",
    "ramachandran.mean.kl",
    "ramachandran.mean.kl_reweighted",
    "ramachandran.mean.tv",
    "ramachandran.mean.tv_reweighted",
    "wasserstein.torus",
    "wasserstein.torus_reweighted",
    "wasserstein.energy",
    "wasserstein.energy_reweighted",
    "wasserstein.tica",
    "wasserstein.tica_reweighted",
    "tica.kl",
    "tica.kl_reweighted",
)
"""The metrics of the tables; the paper has all but the energies as drawn."""
TEMPERATURE = 300.0
"""Temperature of the paper's systems in K."""
UNITS = {"": 1.0, "%": 0.01, "h": 3600.0}
"""Units of the paper's metrics."""


class Published(NamedTuple):
    """A metric of the paper.

    Attributes:
        text: Text as printed.
        mean: Mean over the paper's runs.
        error: Standard error; None if the paper has none.
    """

    text: str
    mean: float
    error: float | None

    @classmethod
    def parse(cls, text: str) -> "Published":
        """Parse a metric as printed.

        Example:
            >>> Published.parse("97.69 ± 0.03 %")
            Published(text='97.69 ± 0.03 %', mean=0.9769, error=0.0003)
        """
        number = text.rstrip(" %h")
        factor = UNITS[text.removeprefix(number).strip()]
        mean, _, error = number.partition(" ± ")
        return cls(text, float(mean) * factor, float(error) * factor if error else None)


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One metric of one system.

    Attributes:
        name: Name of the metric.
        published: Values of the paper, by method.
        ours: Values of each group of runs, in the paper's measure.
        intervals: 95 % intervals of groups of a single run, in the paper's measure; None for other groups.
        cells: The same as text.
        floor: Noise floor.
    """

    name: str
    published: Mapping[str, Published]
    ours: tuple[Spread | None, ...]
    intervals: tuple[Interval | None, ...]
    cells: tuple[str, ...]
    floor: float | None

    def written(self, methods: Sequence[str]) -> list[str]:
        """All cells: name, the paper's methods, runs, noise floor."""
        of_paper = [self.published[method].text if method in self.published else "" for method in methods]
        floor = "" if self.floor is None else writer(self.name)(self.floor)
        return [metric(self.name).label, *of_paper, *self.cells, floor]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """The paper's table of one system, with runs beside it.

    Attributes:
        system: Name of the system.
        methods: Methods of the paper.
        target: The runs; None if there is none.
        rows: One row for each metric.
    """

    system: str
    methods: tuple[str, ...]
    target: TargetComparison | None
    rows: tuple[PaperRow, ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups of runs."""
        return () if self.target is None else self.target.groups

    @property
    def missing(self) -> str:
        """What to do if there is no run; empty if there is one."""
        return missing_run(self.system) if self.target is None else ""

    def notices(self) -> list[str]:
        """Notices for the reader, one sentence each."""
        return [self.missing] if self.target is None else [*self.target.notices(), *shortcomings(self.target)]

    @property
    def heads(self) -> list[str]:
        """Headings of the columns."""
        of_paper = [f"paper: {method}" for method in self.methods]
        return [self.system, *of_paper, *(group.label for group in self.groups), "noise floor"]


@cache
def published() -> dict[str, dict[str, dict[str, Published]]]:
    """The paper's metrics by system, method and name."""
    text = (files("boltzport.experiments.compare") / "assets" / "paper.toml").read_text(encoding="utf-8")
    return {
        system: {
            method: {name: Published.parse(value) for name, value in metrics.items()}
            for method, metrics in methods.items()
        }
        for system, methods in tomllib.loads(text).items()
    }


def paper_tables(comparison: Comparison) -> list[PaperTable]:
    """A table for each of the paper's systems, with the runs of that system, if there are any.

    Raises:
        InputError: No run belongs to one of them.
    """
    known = published()
    found = {_system(target): target for target in comparison.targets if _as_published(target)}
    if not found:
        names = ", ".join(target.name for target in comparison.targets)
        raise InputError(
            f"expected runs of {', '.join(known)}, with their own force fields at {TEMPERATURE:g} K; "
            f"got runs of {names}"
        )
    return [_table(system, found.get(system), of_paper) for system, of_paper in known.items()]


def paper_json(tables: Sequence[PaperTable]) -> dict[str, object]:
    """One JSON object; log Z and its bounds are in the paper's measure."""
    record = finite(
        {
            "measure": {"added": PAPER_MEASURE, "to": list(MEASURED), "why": "two Euler angles counted in turns"},
            "conventions": CONVENTIONS,
            "systems": [_record(table) for table in tables],
        }
    )
    assert isinstance(record, dict)
    return record


def paper_markdown(tables: Sequence[PaperTable]) -> str:
    """The tables as Markdown, with their conventions."""
    lines = [line for table in tables for line in _lines(table)]
    return "\n".join([*lines, *(f"- {sentence}" for sentence in conventions_text()), ""])


def _table(system: str, target: TargetComparison | None, of_paper: Mapping[str, Mapping[str, Published]]) -> PaperTable:
    rows = [_row(target, of_paper, name) for name in ROWS]
    return PaperTable(
        system=system,
        methods=tuple(of_paper),
        target=target,
        rows=tuple(row for row in rows if row.published or any(row.ours)),
    )


def _system(target: TargetComparison) -> str:
    """Name of the system, without the options of its molecule."""
    return target.members[0].data.name


def _as_published(target: TargetComparison) -> bool:
    """Whether the target is a system of the paper, with the paper's force field and temperature."""
    made = target.members[0].data.config.get("molecule", {})
    changed = made.get("forcefield") or made.get("constraints") or made.get("temperature", TEMPERATURE) != TEMPERATURE
    return _system(target) in published() and not changed


def _row(target: TargetComparison | None, of_paper: Mapping[str, Mapping[str, Published]], name: str) -> PaperRow:
    shift = PAPER_MEASURE if name in MEASURED else 0.0
    groups, spreads = ((), ()) if target is None else (target.groups, target.spreads)
    ours = [found.get(name) for found in spreads]
    moved = tuple(None if found is None else found._replace(mean=found.mean + shift) for found in ours)
    intervals = tuple(_interval(group, name, shift) for group in groups)
    return PaperRow(
        name=name,
        published={method: figures[name] for method, figures in of_paper.items() if name in figures},
        ours=moved,
        intervals=intervals,
        cells=tuple(_cell(name, found, interval) for found, interval in zip(moved, intervals, strict=True)),
        floor=next((floor for group in groups if (floor := _floor(group, name)) is not None), None),
    )


def _interval(group: Group, name: str, shift: float) -> Interval | None:
    """The interval of a group of a single run."""
    if len(group.counted) > 1:
        return None
    found = group.counted[0].data.metrics.get(name)
    interval = None if found is None else found.interval
    return None if interval is None else Interval(interval.lower + shift, interval.upper + shift)


def _cell(name: str, found: Spread | None, interval: Interval | None) -> str:
    """Mean and standard error over runs; for a single run, its 95 % interval."""
    if found is None:
        return ""
    write = writer(name)
    if found.error:
        return f"{write(found.mean, resolution=found.error)} ± {write(found.error, resolution=found.error)}"
    if interval is None:
        return write(found.mean)
    ends = " to ".join(write(end, resolution=interval.half_width) for end in interval)
    return f"{write(found.mean, resolution=interval.half_width)} ({ends})"


def _floor(group: Group, name: str) -> float | None:
    found = [member.data.metrics.get(name) for member in group.counted]
    return next((entry.floor for entry in found if entry is not None and entry.floor is not None), None)


def _record(table: PaperTable) -> dict[str, object]:
    return {
        "system": table.system,
        "missing": table.missing or None,
        "notices": table.notices(),
        "runs": [
            {
                "group": group.label,
                "path": str(member.data.path),
                "seed": member.seed,
                "samples": member.data.metrics.value("samples"),
                "wasserstein_samples": member.data.metrics.value("wasserstein.samples"),
            }
            for group in table.groups
            for member in group.members
        ],
        "metrics": {
            row.name: {
                "paper": {
                    method: {"mean": found.mean, "error": found.error} for method, found in row.published.items()
                },
                "ours": {
                    group.label: None if found is None else found._asdict() | {"interval": interval}
                    for group, found, interval in zip(table.groups, row.ours, row.intervals, strict=True)
                },
                "noise_floor": row.floor,
            }
            for row in table.rows
        },
    }


def _lines(table: PaperTable) -> list[str]:
    """The table and its notices; a system without a run has one line."""
    if table.target is None:
        return [table.missing, ""]
    lines = [table.heads, ["---"] * len(table.heads), *(row.written(table.methods) for row in table.rows)]
    return [*("| " + " | ".join(line) + " |" for line in lines), "", *(f"- {notice}" for notice in table.notices()), ""]
