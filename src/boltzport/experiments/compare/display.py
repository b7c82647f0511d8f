"""Tables of a comparison for the terminal."""

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boltzport.experiments.compare.compare import Comparison, TargetComparison
from boltzport.experiments.compare.paper import PaperTable
from boltzport.experiments.compare.rows import caption, table_rows

BESIDE = 5
"""Maximum number of groups in one table; further groups, and those that do not fit the terminal, go below."""
GAP, LEAST, MOST = 2, 17, 24
"""Gap between columns, and minimum and maximum width of a column, unless its metrics need more."""


def comparison_table(comparison: Comparison, *, width: int) -> RenderableType:
    """A table for each target, with its notices.

    Args:
        comparison: The comparison.
        width: Width of the terminal in characters.
    """
    return Stack(*(part for target in comparison.targets for part in _target(target, width)))


def paper_table(table: PaperTable) -> RenderableType:
    """The paper's table of one system with runs beside it, and notices about the runs; one line if there is no run."""
    if table.target is None:
        return Text(table.missing)
    shown = Table(box=None)
    for place, head in enumerate(table.heads):
        shown.add_column(Text(head, style="bold"), justify="right" if place else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row.written(table.methods)))
    return Stack(shown, Text("\n".join(table.notices())))


def _target(target: TargetComparison, width: int) -> Iterator[RenderableType]:
    rows = table_rows(target)
    first = max(len(row.name) for row in rows)
    metrics = [row for row in rows if not row.words]
    widths = [max([LEAST, *(len(row.cells[place]) for row in metrics)]) for place in range(len(target.groups))]
    for shown in _beside(widths, width - first - GAP):
        # Names of groups may contain what looks like markup.
        table = Table(
            title=Text(target.name, style="bold") if shown.start == 0 else None, title_justify="left", box=None
        )
        table.add_column("", no_wrap=True)
        for group, wide in zip(target.groups[shown], widths[shown], strict=True):
            table.add_column(
                Text(group.label), justify="right", overflow="fold", min_width=wide, max_width=max(wide, MOST)
            )
        for row in rows:
            table.add_row(row.name, *(Text(cell) for cell in row.cells[shown]))
        yield table
    if found := target.verdicts():
        yield Text("\n".join(found), style="bold red")
    yield Text("\n".join([*caption(target), *target.notices()]))


def _beside(widths: list[int], room: int) -> Iterator[slice]:
    """Groups to show beside each other: as many as fit, and at least one."""
    start, taken = 0, 0
    for place, wide in enumerate(widths):
        taken += wide + GAP
        if place > start and (taken > room or place - start == BESIDE):
            yield slice(start, place)
            start, taken = place, wide + GAP
    yield slice(start, len(widths))
