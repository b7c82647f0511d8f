"""Compare runs: one table for each target, with notices for the reader."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from boltzport.core.errors import InputError
from boltzport.experiments.compare.groups import Group, Member, make_groups
from boltzport.experiments.compare.metrics import BASIN, COMPARED, COST, ENSEMBLE, MOST_BASINS, basins
from boltzport.experiments.compare.settings import target_of
from boltzport.experiments.compare.spread import Spread
from boltzport.reporting import RunData, as_number, read_run, state_in_words, verdicts
from boltzport.targets import TOYS, toy

DEFAULT = "default"
"""Shown for an option of the molecule that its configuration does not name."""


@dataclass(frozen=True, kw_only=True)
class TargetComparison:
    """Runs of one target.

    Attributes:
        name: Name of the system, with the options of its molecule if the system occurs twice.
        exact_log_z: Exact log Z, if known.
        groups: Groups of runs with the same settings.
        spreads: Metrics of each group, by name.
    """

    name: str
    exact_log_z: float | None
    groups: tuple[Group, ...]
    spreads: tuple[dict[str, Spread], ...]

    @property
    def members(self) -> list[Member]:
        """All runs."""
        return [member for group in self.groups for member in group.members]

    @property
    def columns(self) -> list[str]:
        """Metrics that any of the groups has; basins by their largest population."""
        of_basins: dict[str, float] = {}
        for spreads in self.spreads:
            for name in (name for name in spreads if name.startswith(BASIN)):
                of_basins[name] = max(of_basins.get(name, 0.0), spreads[name].mean)
        largest = sorted(of_basins, key=lambda name: -of_basins[name])[:MOST_BASINS]
        found = [name for name in COMPARED if any(name in found for found in self.spreads)]
        return [*(n for n in found if n in ENSEMBLE), *largest, *(n for n in found if n in COST)]

    def reference_population(self, basin: str) -> float | None:
        """Population of a basin in the reference of the evaluations; None if there is none."""
        found = [
            entry.get("population_reference")
            for member in self.members
            for entry in basins(member.data)
            if entry["name"] == basin
        ]
        return next((population for population in map(as_number, found) if population is not None), None)

    def verdicts(self) -> list[str]:
        """Reasons not to trust runs, one sentence each."""
        return [f"{member.data.path}: {verdict}" for member in self.members for verdict in verdicts(member.data)]

    def notices(self) -> list[str]:
        """Notices for the reader, one sentence each."""
        return list(_notices(self))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison of runs.

    Attributes:
        targets: Comparisons by target.
    """

    targets: tuple[TargetComparison, ...]


def compare(paths: Sequence[Path]) -> Comparison:
    """Read runs and compare those of each target.

    Args:
        paths: Run directories, finished or not, evaluated or not.

    Raises:
        InputError: There is none, or one is not a run directory.
    """
    if not paths:
        raise InputError("expected at least one run directory made by `boltzport train`")
    distinct: dict[Path, Path] = {}
    for path in paths:
        distinct.setdefault(path.resolve(), path)
    runs = [read_run(path) for path in distinct.values()]
    targets: dict[tuple[object, ...], list[RunData]] = {}
    for run in runs:
        targets.setdefault(target_of(run), []).append(run)
    found = []
    for key, members in targets.items():
        exact = _exact_log_z(members[0])
        groups = tuple(make_groups(members, exact))
        found.append(
            TargetComparison(
                name=_name(key, list(targets)),
                exact_log_z=exact,
                groups=groups,
                spreads=tuple(group.spreads() for group in groups),
            )
        )
    return Comparison(targets=tuple(found))


def _exact_log_z(run: RunData) -> float | None:
    return toy(run.name).log_z if run.config.get("kind") == "toy" and run.name in TOYS else None


def _name(key: tuple[object, ...], keys: Sequence[tuple[object, ...]]) -> str:
    """Name of the system, with the options of its molecule if the system occurs twice."""
    same = [other for other in keys if other[0] == key[0]]
    if len(same) == 1:
        return str(key[0])
    made: list[dict[str, object]] = [dict(part for part in other[1:] if isinstance(part, tuple)) for other in same]
    own = made[same.index(key)]
    told = [name for name in dict.fromkeys(name for each in made for name in each) if _differ(name, made)]
    return f"{key[0]} ({', '.join(f'{name} {own.get(name, DEFAULT)}' for name in told)})"


def _differ(name: str, made: Sequence[Mapping[str, object]]) -> bool:
    return len({each.get(name, DEFAULT) for each in made}) > 1


def _notices(target: TargetComparison) -> Iterator[str]:
    for member in target.members:
        path = member.data.path
        if (said := state_in_words(member.data.status)) is not None:
            yield f"{path}: {said}"
        if not member.metrics.evaluated:
            yield (
                f"{path} is not evaluated: its effective sample size and log Z are those of its last training step. "
                f"Evaluate it with: boltzport evaluate {path}"
            )
        if _stale(member):
            yield f"{path} was trained further after its evaluation. Evaluate it again with: boltzport evaluate {path}"
        if member.missing.fired:
            yield f"{path}: {member.missing.message}."
        yield from (f"{path}: {warning}." for warning in member.data.details.get("warnings") or [])
        if member.metrics.evaluated:
            yield from (f"{path}: {verdict}." for verdict in member.data.metrics.verdicts)
    single = [group.label for group in target.groups if len(group.members) == 1]
    if single:
        yield f"Only one seed, so no standard error: {'; '.join(single)}."
    for group in target.groups:
        seeds = [member.seed for member in group.members]
        if len(set(seeds)) < len(seeds):
            yield f"{group.label}: runs with the same seed are not independent; the standard error is too small."
        if 0 < group.evaluated < len(group.members):
            yield (
                f"{group.label}: {group.evaluated} of {len(group.members)} runs are evaluated; the table shows only "
                "these."
            )
    yield from _unlike(target)


def _stale(member: Member) -> bool:
    """Whether the run was trained further after its evaluation."""
    results, now = member.data.results, as_number(member.data.status.get("gradient_steps"))
    then = None if results is None else results.value("gradient_steps")
    return then is not None and now is not None and then < now


def _unlike(target: TargetComparison) -> Iterator[str]:
    """Notices about evaluations with different settings."""
    found = [member.data.results for member in target.members if member.data.results is not None]
    samples = {results.value("samples") for results in found}
    if len(samples) > 1:
        counts = ", ".join(str(count) for count in sorted(int(count or 0) for count in samples))
        yield f"The runs were evaluated with different numbers of samples ({counts}); divergences depend on it."
    references = [results.details.get("reference") for results in found]
    checksums = {str(reference.get("checksum")) for reference in references if isinstance(reference, dict)}
    if len(checksums) > 1 or len({reference is None for reference in references}) > 1:
        yield "The runs were not evaluated against the same reference."
