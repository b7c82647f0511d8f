"""Progress of one or several trainings: bars in a terminal or notebook, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column
from rich.text import Text

from boltzport.experiments.remaining import Remaining
from boltzport.training import StepInfo

QUIET = 20.0
"""Seconds without a line after which the progress within a step is said, where there are no bars."""


class Display:
    """Bars for run, buffer and fit, with the last metrics beside them; without a terminal, one line per step.

    Args:
        steps: Maximum number of steps.
        done: Number of steps done before.
        left: Estimated number of steps left; all planned steps by default.
        silent: Show nothing.
        bars: Bars of the display that this one is part of; its own by default.
        prefix: Start of every line.
    """

    def __init__(
        self,
        steps: int,
        *,
        done: int = 0,
        left: int | None = None,
        silent: bool = False,
        bars: Progress | None = None,
        prefix: str = "",
    ) -> None:
        self._silent = silent
        self._most, self._done, self._start = steps, done, done
        self._steps = steps if left is None else done + left
        self._console = Console(stderr=True)
        self._bars = bars
        self._prefix = prefix
        self._tasks: dict[str, TaskID] = {}
        self._begin = self._last = self._said = time.monotonic()
        self._remaining = Remaining()
        self._rate: float | None = None

    @contextmanager
    def shown(self) -> Iterator["Display"]:
        """Show the bars while the block runs."""
        if self._silent or not _can_draw(self._console):
            yield self
            return
        if self._bars is not None:
            self._add_run(self._bars)
            try:
                yield self
            finally:
                for task in self._tasks.values():
                    self._bars.remove_task(task)
            return
        with _bars(self._console) as self._bars:
            self._add_run(self._bars)
            yield self
        self._bars = None

    def stage(self, name: str, done: int, total: int) -> None:
        """Progress within a step."""
        now = time.monotonic()
        self._remaining.stage(name, total, done=done, at=now)
        if self._bars is not None:
            _advance(self._bars, self._tasks, name, done, total)
            if self._done == self._start and (end := self._ahead()) is not None:
                self._bars.update(self._tasks["run"], end=self._bars.get_time() + end)
        elif not self._silent and now - self._said > QUIET:
            ahead = self._ahead() if self._done == self._start else None
            left = "" if ahead is None else f", about {_clock(ahead)} left"
            self._write(f"  in step {self._done + 1}: {name} {done / max(total, 1):.0%}{left}")

    def step(self, info: StepInfo, *, left: int | None = None) -> None:
        """Show that a step is done.

        Args:
            info: Metrics of the step.
            left: Estimated number of steps left; all planned steps by default.
        """
        self._done = info.step
        self._steps = self._most if left is None else info.step + left
        now = time.monotonic()
        self._remaining.step(now - self._last)
        self._last = now
        seconds = self._remaining.left(self._steps - info.step)
        note = step_in_words(info)
        if self._rate is not None:
            note += f"  {self._rate:.3g} evaluations/s"
        if self._bars is not None:
            self._bars.update(
                self._tasks["run"],
                completed=info.step,
                total=self._steps,
                note=note,
                about=self._about,
                end=self._bars.get_time() + seconds,
            )
            return
        if self._silent:
            return
        self._said = now
        of = f" of about {self._steps}" if self._about else f"/{self._steps}"
        times = f"{_clock(now - self._begin)} done, {_clock(seconds)} left"
        self._write(f"step {info.step}{of}  {times}  {note}")

    def _ahead(self) -> float | None:
        """Estimated time left in seconds, before the first step is done; None if it is not known."""
        net = self._remaining.net
        # The step that a resumed run begins with may be of a kind that comes once.
        return None if net is None or self._start else max(0.0, net * self._steps)

    def _write(self, text: str) -> None:
        self._said = time.monotonic()
        say_line(f"{self._prefix}{text}")

    def evaluations(self, done: int, total: int, rate: float) -> None:
        """Progress within a batch of an expensive energy, with the evaluations per second."""
        self._rate = rate
        if self._bars is not None:
            _advance(self._bars, self._tasks, "energy", done, total)
            self._bars.update(self._tasks["energy"], note=f"{rate:.3g}/s")

    def line(self, text: str) -> None:
        """Print a line."""
        if self._silent:
            return
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @property
    def _about(self) -> str:
        """Mark of a number of steps that is an estimate."""
        return "" if self._steps == self._most else "~"

    def _add_run(self, bars: Progress) -> None:
        self._tasks["run"] = bars.add_task(
            "run", total=self._steps, completed=self._done, note="", about=self._about, end=None
        )


class Whole:
    """One display of several trainings: the number of the run, and below it the bars of the current one.

    Args:
        runs: Number of runs.
        silent: Show nothing.
    """

    def __init__(self, runs: int, *, silent: bool = False) -> None:
        self._runs, self._number, self._name = runs, 0, ""
        self._silent = silent
        self._console = Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bars while the block runs."""
        if self._silent or not _can_draw(self._console):
            yield
            return
        with _bars(self._console) as self._bars:
            self._tasks["all"] = self._bars.add_task("all", total=self._runs, note="", about="")
            yield
        self._bars = None

    def begin(self, name: str) -> None:
        """Show that the next run begins."""
        self._number, self._name = self._number + 1, name
        if self._bars is not None:
            self._bars.update(self._tasks["all"], note=name)

    def end(self, how: str) -> None:
        """Show that the run has ended, and how."""
        if self._bars is not None:
            self._bars.update(self._tasks["all"], completed=self._number)
            for name in [name for name in self._tasks if name != "all"]:
                self._bars.remove_task(self._tasks.pop(name))
        if not self._silent:
            self._console.print(f"{self._prefix}{how}", highlight=False, markup=False, soft_wrap=True)

    def inner(self, steps: int, *, done: int = 0, left: int | None = None) -> Display:
        """The display of the current training."""
        return Display(steps, done=done, left=left, silent=self._silent, bars=self._bars, prefix=self._prefix)

    def stage(self, name: str, done: int, total: int) -> None:
        """Progress of the evaluation after the training."""
        if self._bars is not None:
            _advance(self._bars, self._tasks, name, done, total)

    @property
    def _prefix(self) -> str:
        return f"{self._number}/{self._runs} {self._name}  "


def say_line(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class _Left(ProgressColumn):
    """Time until the expected end of a task; without one, estimated from the speed of its bar."""

    def __init__(self, table_column: Column) -> None:
        super().__init__(table_column)
        self._by_speed = TimeRemainingColumn()

    def render(self, task: Task) -> Text:
        end = task.fields.get("end")
        if end is None:
            return self._by_speed.render(task)
        return Text(_clock(max(0.0, end - task.get_time())), style="progress.remaining")


class _Note(ProgressColumn):
    """The metrics of the last step, cut to the width that the other columns leave."""

    def render(self, task: Task) -> Text:
        return Text(str(task.fields["note"]), no_wrap=True, overflow="ellipsis")


def _can_draw(console: Console) -> bool:
    """Whether bars can be drawn: in a terminal, or in a notebook with widgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


def _fixed() -> Column:
    """A column that keeps its width in a narrow terminal."""
    return Column(no_wrap=True)


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:6}", table_column=_fixed()),
        BarColumn(bar_width=24, table_column=_fixed()),
        TextColumn("{task.completed:.0f}/{task.fields[about]}{task.total:.0f}", table_column=_fixed()),
        TimeElapsedColumn(table_column=_fixed()),
        _Left(table_column=_fixed()),
        _Note(),
        console=console,
    )


def _advance(bars: Progress, tasks: dict[str, TaskID], name: str, done: int, total: int) -> None:
    """Update a bar; a missing one is added, and one that goes back is reset."""
    if name not in tasks:
        tasks[name] = bars.add_task(name, total=total, note="", about="")
    task = tasks[name]
    if done < bars.tasks[bars.task_ids.index(task)].completed:
        bars.reset(task, total=total)
    bars.update(task, completed=done, total=total)


def step_in_words(info: StepInfo) -> str:
    """The metrics of a step in one line.

    Example:
        >>> step_in_words(StepInfo(step=1, gradient_steps=10, ess=0.5, log_z=-1.25, entropy=3.0))
        'ESS 50.0%  log Z -1.250  entropy 3.00'
        >>> step_in_words(StepInfo(step=9, gradient_steps=90, ess_torsions=0.57, ess_stiff=0.74, alpha=0.9, beta=0.74))
        'torsions 57% stiff 74%  path 74%, T/T0 1.11'
    """
    parts = []
    if info.ess is not None:
        parts.append(f"ESS {info.ess:.1%}")
    if info.ess_torsions is not None and info.ess_stiff is not None:
        parts.append(f"torsions {info.ess_torsions:.0%} stiff {info.ess_stiff:.0%}")
    if info.log_z is not None:
        parts.append(f"log Z {info.log_z:.3f}")
    if info.entropy is not None:
        parts.append(f"entropy {info.entropy:.2f}")
    if info.trust_region_multiplier is not None and info.entropy_multiplier is not None:
        parts.append(f"multipliers {info.trust_region_multiplier:.3g}, {info.entropy_multiplier:.3g}")
    if info.beta is not None and info.alpha and info.beta < 1.0:
        parts.append(f"path {info.beta:.0%}, T/T0 {1.0 / info.alpha:.3g}")
    if info.retries:
        parts.append(f"{info.retries} retries")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
