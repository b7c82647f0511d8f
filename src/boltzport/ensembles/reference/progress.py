"""Progress of a sampler."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from boltzport.core.progress import Progress

LINE_SECONDS = 30.0
"""Interval in seconds between printed lines if there is no terminal for a progress bar."""


@contextmanager
def show_progress() -> Iterator[Progress]:
    """Show a progress bar with the remaining time on the standard error, or plain lines if it is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console) as bar:
        tasks = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done)

        yield report


class _Lines:
    """Progress as lines, with the remaining time of the stage."""

    def __init__(self) -> None:
        self._stage, self._start, self._last = "", 0.0, 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._start, self._last = stage, now, now
        elif now - self._last >= LINE_SECONDS or done == total:
            self._last = now
            left = (now - self._start) / max(done, 1) * (total - done)
            sys.stderr.write(f"{stage}: {done} of {total}, {left:.0f} s left\n")
