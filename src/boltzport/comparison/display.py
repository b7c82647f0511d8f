"""A comparison for the terminal."""

from collections.abc import Iterator

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from boltzport.comparison.compare import Comparison, TargetComparison
from boltzport.comparison.rows import caption, table_rows

BESIDE = 5
"""Groups in one table; more of them go below."""


def comparison_table(comparison: Comparison) -> RenderableType:
    """A table for each target, with what must be known of it."""
    return Stack(*(part for target in comparison.targets for part in _target(target)))


def _target(target: TargetComparison) -> Iterator[RenderableType]:
    rows = table_rows(target)
    for start in range(0, len(target.groups), BESIDE):
        shown = slice(start, start + BESIDE)
        # Names of groups may hold what looks like markup.
        table = Table(title=Text(target.name, style="bold") if start == 0 else None, title_justify="left", box=None)
        table.add_column("", no_wrap=True)
        for group in target.groups[shown]:
            table.add_column(Text(group.label), justify="right")
        for row in rows:
            table.add_row(row.name, *(Text(cell) for cell in row.cells[shown]))
        yield table
    yield Text("\n".join([*caption(target), *target.notices()]))
