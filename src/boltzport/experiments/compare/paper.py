"""The paper's tables with runs beside them."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from boltzport.analysis.metrics import metric
from boltzport.core.errors import InputError
from boltzport.core.files import finite
from boltzport.experiments.compare.compare import Comparison, TargetComparison
from boltzport.experiments.compare.groups import Group
from boltzport.experiments.compare.spread import Spread
from boltzport.reporting import writer

PAPER_MEASURE = 2 * math.log(2 * math.pi)
"""log Z of the paper minus ours.

Our densities are with respect to all Cartesian coordinates, with the Haar measure of the orientation (Euler angles in
radian, the middle one as a cosine). The paper's coordinates (bgflow) measure the outer two angles in turns, which makes
a density larger by (2 pi)^2.
"""
MEASURED = ("nll", "elbo", "log_z", "eubo")
"""Metrics that depend on the measure."""
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
    "wasserstein.energy_reweighted",
    "wasserstein.tica",
    "wasserstein.tica_reweighted",
    "tica.kl",
    "tica.kl_reweighted",
)
"""The paper's metrics."""
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
        cells: The same as text.
        floor: Noise floor.
    """

    name: str
    published: Mapping[str, Published]
    ours: tuple[Spread | None, ...]
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
        target: The runs.
        rows: One row for each metric.
    """

    system: str
    methods: tuple[str, ...]
    target: TargetComparison
    rows: tuple[PaperRow, ...]

    @property
    def heads(self) -> list[str]:
        """Headings of the columns."""
        of_paper = [f"paper: {method}" for method in self.methods]
        return [self.system, *of_paper, *(group.label for group in self.target.groups), "noise floor"]


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
    """A table for each of the paper's systems among the runs.

    Raises:
        InputError: No run belongs to one of them.
    """
    known = published()
    found = [_table(target, known[target.name]) for target in comparison.targets if _as_published(target)]
    if not found:
        names = ", ".join(target.name for target in comparison.targets)
        raise InputError(
            f"expected runs of {', '.join(known)}, with their own force fields at {TEMPERATURE:g} K; "
            f"got runs of {names}"
        )
    return sorted(found, key=lambda table: list(known).index(table.system))


def paper_json(tables: Sequence[PaperTable]) -> dict[str, object]:
    """One JSON object; log Z and its bounds are in the paper's measure."""
    record = finite(
        {
            "measure": {"added": PAPER_MEASURE, "to": list(MEASURED), "why": "two Euler angles counted in turns"},
            "systems": [_record(table) for table in tables],
        }
    )
    assert isinstance(record, dict)
    return record


def paper_markdown(tables: Sequence[PaperTable]) -> str:
    """The tables as Markdown."""
    return "\n".join(line for table in tables for line in _lines(table))


def _table(target: TargetComparison, of_paper: Mapping[str, Mapping[str, Published]]) -> PaperTable:
    rows = [_row(target, of_paper, name) for name in ROWS]
    return PaperTable(
        system=target.name,
        methods=tuple(of_paper),
        target=target,
        rows=tuple(row for row in rows if row.published or any(row.ours)),
    )


def _as_published(target: TargetComparison) -> bool:
    """Whether the target is a system of the paper, with the paper's force field and temperature."""
    made = target.members[0].data.config.get("molecule", {})
    changed = made.get("forcefield") or made.get("constraints") or made.get("temperature", TEMPERATURE) != TEMPERATURE
    return target.name in published() and not changed


def _row(target: TargetComparison, of_paper: Mapping[str, Mapping[str, Published]], name: str) -> PaperRow:
    shift = PAPER_MEASURE if name in MEASURED else 0.0
    ours = [spreads.get(name) for spreads in target.spreads]
    moved = tuple(None if found is None else found._replace(mean=found.mean + shift) for found in ours)
    return PaperRow(
        name=name,
        published={method: figures[name] for method, figures in of_paper.items() if name in figures},
        ours=moved,
        cells=tuple(_cell(group, name, found, shift) for group, found in zip(target.groups, moved, strict=True)),
        floor=next((floor for group in target.groups if (floor := _floor(group, name)) is not None), None),
    )


def _cell(group: Group, name: str, found: Spread | None, shift: float) -> str:
    """Mean and standard error over runs; for a single run, its 95 % interval."""
    if found is None:
        return ""
    write = writer(name)
    if found.error:
        return f"{write(found.mean, resolution=found.error)} ± {write(found.error, resolution=found.error)}"
    single = group.counted[0].data.metrics.get(name)
    interval = None if single is None else single.interval
    if interval is None:
        return write(found.mean)
    ends = " to ".join(write(end + shift, resolution=interval.half_width) for end in interval)
    return f"{write(found.mean, resolution=interval.half_width)} ({ends})"


def _floor(group: Group, name: str) -> float | None:
    found = [member.data.metrics.get(name) for member in group.counted]
    return next((entry.floor for entry in found if entry is not None and entry.floor is not None), None)


def _record(table: PaperTable) -> dict[str, object]:
    return {
        "system": table.system,
        "notices": table.target.notices(),
        "runs": [
            {"group": group.label, "path": str(member.data.path), "seed": member.seed}
            for group in table.target.groups
            for member in group.members
        ],
        "metrics": {
            row.name: {
                "paper": {
                    method: {"mean": found.mean, "error": found.error} for method, found in row.published.items()
                },
                "ours": {
                    group.label: None if found is None else found._asdict()
                    for group, found in zip(table.target.groups, row.ours, strict=True)
                },
                "noise_floor": row.floor,
            }
            for row in table.rows
        },
    }


def _lines(table: PaperTable) -> list[str]:
    lines = [table.heads, ["---"] * len(table.heads), *(row.written(table.methods) for row in table.rows)]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
