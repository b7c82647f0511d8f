"""A training in memory: a flow, its method, and all that is needed to go on with it."""

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from boltzport.flow import build_flow
from boltzport.methods import Checkpoint, StepInfo
from boltzport.progress import Progress
from boltzport.run.build import OpenTarget, build_method
from boltzport.run.config import RunConfig
from boltzport.rundir import Row
from boltzport.targets import Ledger

_LOG = logging.getLogger("boltzport")


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a training is.

    Attributes:
        state: `running`, `done`, `interrupted` by the user, or `failed`.
        message: What is to be said of it.
        step: Steps done.
        steps: Steps done where it is done, and else those planned, as far as their number is known.
        gradient_steps: Gradient steps done.
        seconds: Time spent, summed over resumptions.
    """

    state: str
    message: str = ""
    step: int = 0
    steps: int = 0
    gradient_steps: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values, times to a millisecond."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


class Training:
    """A training under way; it knows of no files.

    Args:
        config: The run.
        target: Its target.
        ledger: Where evaluations are counted from the first step on.
        saved: A checkpoint to go on from.

    Attributes:
        state: State of the method.
        rows: The metrics of the steps that were done here.
        left: Steps that are left, as far as it is known.
    """

    def __init__(
        self, config: RunConfig, target: OpenTarget, *, ledger: Ledger, saved: Checkpoint | None = None
    ) -> None:
        self.config, self.target, self.ledger = config, target, ledger
        self.rows: list[Row] = []
        self._generator = torch.Generator().manual_seed(config.seed)
        self._before = float(saved["seconds"]) if saved else 0.0
        self._begin = time.monotonic()
        # A density of a user is small: compiling would take longer than its training.
        flow = build_flow(
            target.counted.layout, config.flow, generator=self._generator, compiled=config.kind != "density"
        )
        self.method = build_method(config, target, flow)
        target.counted.ledger = ledger
        self.state = self.method.init(flow, target.counted)
        if saved:
            self.state.restore(saved["state"])
            self._generator.set_state(saved["generator"])
            self._check_threads(saved["threads"])
        self.left = self.method.steps_left(self.state)

    @property
    def seconds(self) -> float:
        """Time spent, summed over resumptions."""
        return self._before + time.monotonic() - self._begin

    def steps(self, progress: Progress) -> Iterator[StepInfo]:
        """Train, step by step, until there is nothing left to do.

        Raises:
            RunError: A step failed for good; the state is what it was before.
        """
        while not self.method.finished(self.state):
            info = self.method.step(self.state, generator=self._generator, progress=progress)
            self.left = self.method.steps_left(self.state)
            row: Row = info._asdict()
            self.rows.append(row | {"evaluations": self.ledger.cost, "seconds": round(self.seconds, 3)})
            yield info

    def checkpoint(self) -> Checkpoint:
        """All that is needed to go on bit for bit, with the last row of the metrics."""
        return {
            "state": self.state.save(),
            "generator": self._generator.get_state(),
            "ledger": self.ledger.to_json(),
            "row": self.rows[-1],
            "seconds": self.seconds,
            "threads": torch.get_num_threads(),
        }

    def status(self, state: str, message: str = "") -> Status:
        """How far it is."""
        # A training may be done before its last step: where it has arrived, or its budget is used up.
        left = 0 if state == "done" else self.left
        step = self.state.step
        return Status(
            state=state,
            message=message,
            step=step,
            steps=step + left,
            gradient_steps=self.state.gradient_steps,
            seconds=self.seconds,
        )

    def _check_threads(self, before: int) -> None:
        now = torch.get_num_threads()
        if before != now:
            _LOG.warning("the run had %d threads and has %d now: it is not bitwise reproducible", before, now)
