"""The training loop: steps, checkpoints, and what happens when one is cut short."""

import logging
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from boltzport.errors import InputError, RunError
from boltzport.flow import build_flow
from boltzport.methods import Checkpoint, State, StepInfo
from boltzport.run.build import build_method, open_target
from boltzport.run.config import RunConfig
from boltzport.run.display import Display, Whole, figures
from boltzport.run.samples import require_samples
from boltzport.rundir import Row, RunDirectory, write_atomically, write_json
from boltzport.targets import Ledger

_LOG = logging.getLogger("boltzport")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a training ended.

    Attributes:
        directory: Where it lies.
        state: `done`, or `interrupted` by the user.
        step: Steps done.
        steps: Steps done where it is done, and else those planned, as far as their number is known.
        gradient_steps: Gradient steps done.
        seconds: Time spent, summed over resumptions.
        target_evaluations: Evaluations of the target, for whatever purpose.
        last: The last row of the metrics.
    """

    directory: Path
    state: str
    step: int
    steps: int
    gradient_steps: int
    seconds: float
    target_evaluations: int
    last: Row


def train(config: RunConfig, path: Path, *, resume: bool = False, whole: Whole | None = None) -> Outcome:
    """Train, or go on with a training, in a run directory.

    Args:
        config: The run; with `resume`, what its directory holds is taken instead.
        path: The run directory.
        resume: Go on where the last checkpoint is.
        whole: The display of the campaign that the training is part of.

    Raises:
        InputError: The directory is not what it should be.
        RunError: A step failed for good, or the disk is full; the last checkpoint is usable.
    """
    directory = RunDirectory(path)
    saved = None
    if resume:
        config = RunConfig.load(directory.require(directory.config, "boltzport train"))
        if directory.checkpoint.is_file():
            saved = _saved(directory.checkpoint)
        else:
            # Killed in its first step: there is nothing to go on from but the configuration.
            directory.metrics.unlink(missing_ok=True)
    else:
        require_samples(config)
        directory.create()
        config.save(directory.config)
    with logging_to(directory.log), _terminations():
        return _Training(config, directory, saved, whole).run()


class _Training:
    """A training under way."""

    def __init__(
        self, config: RunConfig, directory: RunDirectory, saved: Checkpoint | None, whole: Whole | None
    ) -> None:
        self._config, self._directory, self._saved = config, directory, saved
        self._whole = whole
        self._generator = torch.Generator().manual_seed(config.seed)
        self._ledger = Ledger(saved["ledger"] if saved else None)
        self._before = float(saved["seconds"]) if saved else 0.0
        self._begin = time.monotonic()
        self._row: Row = saved["row"] if saved else {}

    @property
    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._begin

    def run(self) -> Outcome:
        config, directory = self._config, self._directory
        began = "resumed" if self._saved else "started"
        _LOG.info("%s: %s %s, seed %d", began, config.method, config.system, config.seed)
        # A checkpoint has counted the evaluations of its own start.
        ledger = self._ledger if self._saved is None else Ledger()
        with open_target(config, saved=directory if self._saved else None, ledger=ledger) as target:
            if target.molecule is not None and not self._saved:
                target.save(directory)
                _LOG.info("energy by %s: %s", target.backend, target.message)
            flow = build_flow(target.counted.layout, config.flow, generator=self._generator)
            method = build_method(config, target, flow)
            target.counted.ledger = self._ledger
            state = method.init(flow, target.counted)
            if self._saved:
                self._take_over(state, self._saved)
            left = method.steps_left(state)
            display = (Display if self._whole is None else self._whole.inner)(method.steps, done=state.step, left=left)
            end = "done"
            try:
                with display.shown():
                    while not method.finished(state):
                        info = method.step(state, generator=self._generator, progress=display.stage)
                        left = method.steps_left(state)
                        self._keep(state, info, left)
                        display.step(info, left=left)
            except KeyboardInterrupt:
                end = "interrupted"
            except RunError as error:
                self._report(state, left, "failed", str(error))
                raise
            message = _MESSAGES[end].format(step=state.step, path=directory.path)
            # A training may be done before its last step: where it has arrived, or its budget is used up.
            left = 0 if end == "done" else left
            self._report(state, left, end, message)
            return Outcome(
                directory=directory.path,
                state=end,
                step=state.step,
                steps=state.step + left,
                gradient_steps=state.gradient_steps,
                seconds=self._seconds,
                target_evaluations=self._ledger.total,
                last=self._row,
            )

    def _take_over(self, state: State, saved: Checkpoint) -> None:
        state.restore(saved["state"])
        self._generator.set_state(saved["generator"])
        self._directory.rewind(saved["row"])
        if saved["threads"] != torch.get_num_threads():
            _LOG.warning(
                "the run had %d threads and has %d now: it goes on, but not bit for bit",
                saved["threads"],
                torch.get_num_threads(),
            )

    def _keep(self, state: State, info: StepInfo, left: int) -> None:
        """Write a finished step: the checkpoint first, for it holds the row as well."""
        self._row = info._asdict() | {"evaluations": self._ledger.total, "seconds": round(self._seconds, 3)}
        record = {
            "state": state.save(),
            "generator": self._generator.get_state(),
            "ledger": self._ledger.to_json(),
            "row": self._row,
            "seconds": self._seconds,
            "threads": torch.get_num_threads(),
        }
        flow = state.result().to_bytes()
        # The flow is written first: one that is a step ahead of its checkpoint is a good flow, one behind is not.
        write_atomically(self._directory.flow, lambda file: file.write(flow))
        write_atomically(self._directory.checkpoint, lambda file: torch.save(record, file))
        self._directory.append(self._row)
        write_json(self._directory.ledger, self._ledger.to_json())
        self._report(state, left, "running", "")
        _LOG.info("step %d: %s", info.step, figures(info))

    def _report(self, state: State, left: int, end: str, message: str) -> None:
        if message:
            _LOG.info("%s", message)
        record = {
            "state": end,
            "message": message,
            "step": state.step,
            "steps": state.step + left,
            "gradient_steps": state.gradient_steps,
            "seconds": round(self._seconds, 3),
        }
        write_json(self._directory.status, record)


_MESSAGES = {
    "done": "done after {step} steps",
    "interrupted": "interrupted; {step} steps are kept. Go on with: boltzport train --resume --out {path}",
}


def _saved(path: Path) -> Checkpoint:
    try:
        checkpoint: Checkpoint = torch.load(path, weights_only=True)
    except Exception as error:  # whatever the unpickler finds wrong
        raise InputError(f"{path} is not a checkpoint: {error}") from error
    return checkpoint


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to a file as well while the block runs."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(level)
        handler.close()


@contextmanager
def _terminations() -> Iterator[None]:
    """A polite request to end (SIGTERM, from a scheduler) is treated as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    try:
        former = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:
        # Not in the main thread, where signals cannot be set.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)
