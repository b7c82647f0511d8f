"""What a user sees of a training: bars in a terminal, lines elsewhere."""

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
    """

    def __init__(self, steps: int, *, done: int = 0, silent: bool = False) -> None:
        self._silent = silent
        self._steps, self._done = steps, done
        self._console = Console(stderr=True)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._begin = time.monotonic()
        self._first = done

    @contextmanager
    def shown(self) -> Iterator["Display"]:
        """Show the bars while the block runs."""
        if self._silent or not self._console.is_terminal:
            yield self
            return
        columns = (
            TextColumn("{task.description:6}"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console) as self._bars:
            self._tasks["run"] = self._bars.add_task("run", total=self._steps, completed=self._done, note="")
            yield self
        self._bars = None

    def stage(self, name: str, done: int, total: int) -> None:
        """Progress within a step."""
        if self._bars is None:
            return
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, note="")
        task = self._tasks[name]
        if done < self._bars.tasks[self._bars.task_ids.index(task)].completed:
            self._bars.reset(task, total=total)
        self._bars.update(task, completed=done, total=total)

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
        sys.stderr.write(f"step {info.step}/{self._steps}  {_clock(elapsed)} done, {_clock(left)} left  {note}\n")
        sys.stderr.flush()

    def line(self, text: str) -> None:
        """Something else that is worth a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def figures(info: StepInfo) -> str:
    """The figures of a step that tell how a training goes.

    Example:
        >>> figures(StepInfo(step=1, gradient_steps=10, ess=0.5, log_z=-1.25, entropy=3.0))
        'ESS 50.0%  log Z -1.250  entropy 3.00'
    """
    parts = []
    if info.ess is not None:
        parts.append(f"ESS {info.ess:.1%}")
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
