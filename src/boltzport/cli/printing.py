"""What commands print: one JSON object, progress, names for people."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from boltzport.core.progress import Progress

if TYPE_CHECKING:
    from boltzport.experiments.compare import Comparison


def print_json(record: dict[str, object]) -> None:
    """Print one JSON object to standard output."""
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


@contextmanager
def bar() -> Iterator[Progress]:
    """Progress bars with the time remaining, on standard error; nothing if that is not a terminal."""
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    percentage = TextColumn("{task.percentage:.0f}%")
    columns = (TextColumn("{task.description}"), BarColumn(), percentage, TimeRemainingColumn())
    console = Console(stderr=True)
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def percent(share: float) -> str:
    """A share in per cent, also a very small one.

    Example:
        >>> percent(0.9921), percent(1.3e-5)
        ('99.2%', '0.001%')
    """
    return f"{share:.1%}" if share >= 1e-3 or not share else f"{100 * share:.1g}%"


def short(forcefield: tuple[str, ...]) -> str:
    """Names of a force field without the suffix .xml."""
    return " + ".join(name.removesuffix(".xml") for name in forcefield)


def print_comparison(comparison: "Comparison") -> None:
    """Print the tables of a comparison, at full width if standard output is not a terminal."""
    from boltzport.experiments.compare import comparison_table

    console = Console()
    console = console if console.is_terminal else Console(width=240)
    console.print(comparison_table(comparison, width=console.width), highlight=False, soft_wrap=False)
