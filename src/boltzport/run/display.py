"""What a user sees of a training, or of several: bars in a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from boltzport.methods import StepInfo


class Display:
    """Bars for run, buffer and fit, with the last figures beside them; a line a step where there is no terminal.

    Args:
        steps: Steps that are planned.
        done: Steps that were done before.
        silent: Show nothing.
        bars: Bars of a display that this one is part of; its own by default.
        prefix: Begins every line.
    """

    def __init__(
        self, steps: int, *, done: int = 0, silent: bool = False, bars: Progress | None = None, prefix: str = ""
    ) -> None:
        self._silent = silent
        self._steps, self._done = steps, done
        self._console = Console(stderr=True)
        self._bars = bars
        self._prefix = prefix
        self._tasks: dict[str, TaskID] = {}
        self._begin = time.monotonic()
        self._first = done

    @contextmanager
    def shown(self) -> Iterator["Display"]:
        """Show the bars while the block runs."""
        if self._silent or not self._console.is_terminal:
            yield self
            return
        if self._bars is not None:
            self._tasks["run"] = self._bars.add_task("run", total=self._steps, completed=self._done, note="")
            try:
                yield self
            finally:
                for task in self._tasks.values():
                    self._bars.remove_task(task)
            return
        with _bars(self._console) as self._bars:
            self._tasks["run"] = self._bars.add_task("run", total=self._steps, completed=self._done, note="")
            yield self
        self._bars = None

    def stage(self, name: str, done: int, total: int) -> None:
        """Progress within a step."""
        if self._bars is not None:
            _advance(self._bars, self._tasks, name, done, total)

    def step(self, info: StepInfo) -> None:
        """A step is done."""
        self._done = info.step
        note = figures(info)
        if self._bars is not None:
            self._bars.update(self._tasks["run"], completed=info.step, note=note)
            return
        if self._silent:
            return
        elapsed = time.monotonic() - self._begin
        left = elapsed / max(info.step - self._first, 1) * (self._steps - info.step)
        times = f"{_clock(elapsed)} done, {_clock(left)} left"
        sys.stderr.write(f"{self._prefix}step {info.step}/{self._steps}  {times}  {note}\n")
        sys.stderr.flush()

    def line(self, text: str) -> None:
        """Something else that is worth a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Whole:
    """One display over several trainings: which of how many, and below it the bars of the one that runs.

    Args:
        runs: How many there are.
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
        if self._silent or not self._console.is_terminal:
            yield
            return
        with _bars(self._console) as self._bars:
            self._tasks["all"] = self._bars.add_task("all", total=self._runs, note="")
            yield
        self._bars = None

    def begin(self, name: str) -> None:
        """The next run."""
        self._number, self._name = self._number + 1, name
        if self._bars is not None:
            self._bars.update(self._tasks["all"], note=name)

    def end(self, how: str) -> None:
        """The run has ended, and how."""
        if self._bars is not None:
            self._bars.update(self._tasks["all"], completed=self._number)
            for name in [name for name in self._tasks if name != "all"]:
                self._bars.remove_task(self._tasks.pop(name))
        if not self._silent:
            self._console.print(f"{self._prefix}{how}", highlight=False, markup=False, soft_wrap=True)

    def inner(self, steps: int, *, done: int = 0) -> Display:
        """The display of the training that runs."""
        return Display(steps, done=done, silent=self._silent, bars=self._bars, prefix=self._prefix)

    def stage(self, name: str, done: int, total: int) -> None:
        """Progress of what follows the training."""
        if self._bars is not None:
            _advance(self._bars, self._tasks, name, done, total)

    @property
    def _prefix(self) -> str:
        return f"{self._number}/{self._runs} {self._name}  "


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:6}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _advance(bars: Progress, tasks: dict[str, TaskID], name: str, done: int, total: int) -> None:
    """Set a bar, which is made where it is not there and begins anew where it goes back."""
    if name not in tasks:
        tasks[name] = bars.add_task(name, total=total, note="")
    task = tasks[name]
    if done < bars.tasks[bars.task_ids.index(task)].completed:
        bars.reset(task, total=total)
    bars.update(task, completed=done, total=total)


def figures(info: StepInfo) -> str:
    """The figures of a step that tell how a training goes.

    Example:
        >>> figures(StepInfo(step=1, gradient_steps=10, ess=0.5, log_z=-1.25, entropy=3.0))
        'ESS 50.0%  log Z -1.250  entropy 3.00'
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
    if info.retries:
        parts.append(f"{info.retries} retries")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
