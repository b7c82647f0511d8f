"""Groups of runs that differ only in their seed."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from boltzport.experiments.compare.metrics import COMPARED, RunMetrics, run_metrics
from boltzport.experiments.compare.missing import Verdict, verdicts
from boltzport.experiments.compare.settings import MOST, describe, differing, of_method, settings_of, shown
from boltzport.experiments.compare.spread import Spread, spread
from boltzport.reporting import RunData
from boltzport.training.methods import METHODS


class Forces(StrEnum):
    """When a run used forces."""

    NONE = "none"
    STARTUP = "startup"
    TRAINING = "training"


@dataclass(frozen=True, kw_only=True)
class Member:
    """One run.

    Attributes:
        data: Contents of the run directory.
        metrics: Metrics to compare.
        missing: Missing mass.
    """

    data: RunData
    metrics: RunMetrics
    missing: Verdict

    @property
    def seed(self) -> int | None:
        """Seed of the run."""
        found = self.data.config.get("seed")
        return found if isinstance(found, int) else None

    @property
    def forces(self) -> Forces:
        """When it used forces, from its ledger."""
        ledger = self.data.ledger
        if ledger.get("training_gradients", 0) > 0:
            return Forces.TRAINING
        return Forces.STARTUP if ledger.get("startup_gradients", 0) > 0 else Forces.NONE

    def resolution(self, name: str) -> float | None:
        """Precision of a metric in this run: half of its confidence interval; None if it has none."""
        found = self.data.metrics.get(name)
        return None if found is None or found.interval is None else found.interval.half_width


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of one method with the same settings.

    Attributes:
        label: Name of the group: the method, and the settings in which it differs from other groups.
        method: Name of the method.
        preset: Preset that its settings started from.
        settings: Settings in which groups differ.
        members: The runs.
    """

    label: str
    method: str
    preset: str
    settings: Mapping[str, Any]
    members: tuple[Member, ...]

    @property
    def evaluated(self) -> int:
        """Number of evaluated runs."""
        return sum(member.metrics.evaluated for member in self.members)

    @property
    def forces(self) -> Forces:
        """The most extensive use of forces in any of the runs."""
        found = {member.forces for member in self.members}
        return next(kind for kind in (Forces.TRAINING, Forces.STARTUP, Forces.NONE) if kind in found)

    @property
    def reference_samples(self) -> bool:
        """Whether the method learns from samples of the target."""
        return self.method in METHODS and METHODS[self.method].needs_samples

    @property
    def counted(self) -> tuple[Member, ...]:
        """The runs whose metrics are shown: the evaluated ones, or all if none is evaluated.

        The last step of a training has another flow and other samples than an evaluation, and the cost of an
        unfinished run is not the cost of the metrics of the others.
        """
        return tuple(member for member in self.members if member.metrics.evaluated or not self.evaluated)

    def spreads(self) -> dict[str, Spread]:
        """Metrics over the runs that are shown, by name."""
        found = {}
        named = dict.fromkeys([*COMPARED, *(name for member in self.members for name in member.metrics.values)])
        for name in named:
            values = [member.metrics.values[name] for member in self.counted if name in member.metrics.values]
            if (metric := spread(values)) is not None:
                found[name] = metric
        return found


def make_groups(runs: Sequence[RunData], exact_log_z: float | None) -> list[Group]:
    """Groups of runs of one target, in the order of their first runs."""
    members = [
        Member(data=run, metrics=run_metrics(run), missing=verdict)
        for run, verdict in zip(runs, verdicts(runs, exact_log_z), strict=True)
    ]
    alike: dict[tuple[object, ...], list[Member]] = {}
    for member in members:
        key = tuple(sorted(settings_of(member.data).items()))
        alike.setdefault((_method(member), key), []).append(member)
    taken: dict[str, int] = {}
    groups = []
    for found in alike.values():
        settings = settings_of(found[0].data)
        names = _told(found[0], members)
        parts = [_method(found[0]), describe(settings, names)]
        label = ", ".join(part for part in parts if part)
        taken[label] = taken.get(label, 0) + 1
        groups.append(
            Group(
                label=label if taken[label] == 1 else f"{label} ({taken[label]})",
                method=_method(found[0]),
                preset=str(settings.get("preset", "")),
                settings={shown(name): settings.get(name) for name in names},
                members=tuple(found),
            )
        )
    return groups


def _method(member: Member) -> str:
    return str(member.data.config.get("method", "unknown method"))


def _told(member: Member, members: Sequence[Member]) -> list[str]:
    """Settings that distinguish a run: its method's among runs of that method, the others among all runs."""
    alike = [other for other in members if _method(other) == _method(member)]
    everywhere, here = (differing([settings_of(other.data) for other in found]) for found in (members, alike))
    names = [name for name in everywhere if not of_method(name)] + [name for name in here if of_method(name)]
    return names if len(names) <= MOST else _unusual(member, alike, names)


def _unusual(member: Member, alike: Sequence[Member], names: Sequence[str]) -> list[str]:
    """The settings of a run that differ from the most common value."""
    settings = [settings_of(other.data) for other in alike]
    usual = {name: Counter(found.get(name) for found in settings).most_common(1)[0][0] for name in names}
    own = settings_of(member.data)
    return [name for name in names if own.get(name) != usual[name]]
