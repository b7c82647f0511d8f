"""Progress of a sampler, and early stopping by the user."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from boltzport.core.progress import Progress

LINE_SECONDS = 30.0
"""Interval in seconds between printed lines if there is no terminal for a progress bar."""


class StopRequest:
    """Whether the user asked to stop; the sampler checks it between steps."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """The first Ctrl-C requests a stop, a second one interrupts as usual."""
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if request.asked:
            signal.default_int_handler(number, frame)
        request.asked = True

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread receives signals.
        yield request
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)


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
