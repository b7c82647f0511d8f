"""What commands print: one JSON object, progress, names for people."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


def print_json(record: dict[str, object]) -> None:
    """One JSON object on standard output."""
    sys.stdout.write(json.dumps(record, indent=2, allow_nan=False) + "\n")


@contextmanager
def bar() -> Iterator[Callable[[str, int, int], None]]:
    """Progress with an estimate, on standard error; nothing where that is no terminal."""
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    percentage = TextColumn("{task.percentage:.0f}%")
    columns = (TextColumn("{task.description}"), BarColumn(), percentage, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done, total=total)

        yield progress


def short(forcefield: tuple[str, ...]) -> str:
    """Names of a force field without their endings."""
    return " + ".join(name.removesuffix(".xml") for name in forcefield)
