"""The table as text: a row for each metric, a column for each group. No group is marked as best."""

from typing import NamedTuple

from boltzport.analysis.metrics import metric, rounded_down
from boltzport.experiments.compare.compare import TargetComparison
from boltzport.experiments.compare.groups import Forces, Group
from boltzport.experiments.compare.metrics import BASIN, COST
from boltzport.experiments.compare.missing import MISLED
from boltzport.experiments.compare.spread import Spread
from boltzport.reporting import writer

OF_TRAINING = "†"
"""Marks metrics of the last training step, for runs without an evaluation."""


class TableRow(NamedTuple):
    """One metric of all groups.

    Attributes:
        name: Label of the metric.
        cells: Text for each group.
        meaning: Meaning of the metric in one line.
        words: Whether the cells are words, which may be wrapped.
    """

    name: str
    cells: tuple[str, ...]
    meaning: str
    words: bool = False


def table_rows(target: TargetComparison) -> list[TableRow]:
    """All rows of the table of a target."""
    found = [_metric_row(target, name) for name in target.columns if name not in COST]
    found.append(
        TableRow(
            "missing mass",
            tuple(missing_cell(group) for group in target.groups),
            "probability that the model lacks, from log Z of the reference, of the other runs, or the exact value; "
            "reported from 1 %, or from 0.1 % if the tail of the weights is light",
            words=True,
        )
    )
    sources = tuple(trained_on(group) for group in target.groups)
    found.append(TableRow("trained on", sources, "data that the method learns from", words=True))
    found += [_metric_row(target, name) for name in target.columns if name in COST]
    seeds = tuple(_seeds(group) for group in target.groups)
    return [*found, TableRow("runs", seeds, "number of runs and their seeds", words=True)]


def caption(target: TargetComparison) -> list[str]:
    """Explanation of the marks of a table."""
    found = ["± is the standard error over runs with different seeds."]
    if any(OF_TRAINING in cell for row in table_rows(target) for cell in row.cells):
        found.append(f"{OF_TRAINING} of the last training step: these runs are not evaluated.")
    if any(group.reference_samples for group in target.groups):
        found.append("The evaluations do not include the cost of reference samples.")
    if target.exact_log_z is not None:
        found.append(f"The exact log Z is {target.exact_log_z:.4f}.")
    return found


def trained_on(group: Group) -> str:
    """The data that a method learns from."""
    source = "reference samples" if group.reference_samples else "energies"
    return {
        Forces.NONE: source,
        Forces.STARTUP: f"{source}; forces at the start",
        Forces.TRAINING: f"{source} and forces",
    }[group.forces]


def missing_cell(group: Group) -> str:
    """Missing mass of the runs of a group."""
    fired = [member.missing.at_least or 0.0 for member in group.members if member.missing.fired]
    looked = sum(member.missing.at_least is not None for member in group.members)
    if fired:
        return f"! at least {rounded_down(max(fired))}, {len(fired)} of {len(group.members)}"
    if looked == 0:
        return "cannot be told" if any(member.missing == MISLED for member in group.members) else "not checked"
    return "none shown" if looked == len(group.members) else f"none shown, {looked} of {len(group.members)}"


def _metric_row(target: TargetComparison, name: str) -> TableRow:
    cells = tuple(
        _cell(found.get(name), group, name) for group, found in zip(target.groups, target.spreads, strict=True)
    )
    return TableRow(_name(target, name), cells, metric(name).meaning)


def _name(target: TargetComparison, name: str) -> str:
    """Label of a metric; for a basin, with its population in the reference."""
    if not name.startswith(BASIN):
        return metric(name).label
    basin = name.removeprefix(BASIN).rpartition(".")[0]
    there = target.reference_population(basin)
    return f"{metric(name).label} of {basin}" + ("" if there is None else f" (reference {writer(name)(there)})")


def _cell(found: Spread | None, group: Group, name: str) -> str:
    if found is None:
        return "–"
    write = writer(name)
    alone = group.counted[0].resolution(name) if len(group.counted) == 1 else None
    text = write(found.mean, resolution=found.error or alone)
    # Costs are often the same for all seeds, to the last evaluation.
    if found.error:
        text += f" ± {write(found.error, resolution=found.error)}"
    if found.runs < len(group.members):
        text += f" ({found.runs} of {len(group.members)})"
    return f"{text} {OF_TRAINING}" if name not in COST and not group.evaluated else text


def _seeds(group: Group) -> str:
    seeds = ", ".join("?" if member.seed is None else str(member.seed) for member in group.members)
    return f"{len(group.members)} (seed{'s' if len(group.members) > 1 else ''} {seeds})"
