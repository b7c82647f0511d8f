"""A training in memory: a flow, its method, and the state needed to resume it."""

import logging
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from boltzport.core.errors import InputError
from boltzport.core.files import Row
from boltzport.core.parallel import ranks
from boltzport.core.progress import Progress
from boltzport.core.seeds import of_rank
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Ledger
from boltzport.training.arrival import shortfall
from boltzport.training.base import Checkpoint, Method, StepInfo
from boltzport.training.divided import joined, on, own_part

_LOG = logging.getLogger("boltzport")


@dataclass(frozen=True, kw_only=True)
class Status:
    """Status of a training.

    Attributes:
        state: `running`, `done`, `interrupted` by the user, or `failed`.
        message: Message for the user.
        step: Number of finished steps.
        steps: Number of planned steps, as far as it is known; for a finished training, the number of its steps.
        gradient_steps: Number of gradient steps.
        seconds: Time in seconds, summed over all resumed parts.
        warning: What a finished training lacks, in one sentence.
    """

    state: str
    message: str = ""
    step: int = 0
    steps: int = 0
    gradient_steps: int = 0
    seconds: float = 0.0
    warning: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values, with times to a millisecond."""
        return asdict(self) | {"seconds": round(self.seconds, 3)}


class Training:
    """A training in progress, without files.

    Args:
        method: The method.
        flow: The flow to train.
        target: The target.
        generator: Random generator of the training.
        ledger: Counts the evaluations from the first step on.
        saved: Checkpoint to resume from.
        start: Trained flow that the training starts from, which then is its initial density, with the same weights as
            `flow`; None if `flow` is untrained.
        device: Device to train on; that of the flow and of the generator by default.

    Attributes:
        state: State of the method.
        generator: Random generator of this rank.
        rows: Metrics of the steps since the start or the last resumption.
        left: Number of steps left, as far as it is known.
    """

    def __init__(
        self,
        method: Method[Any],
        flow: Flow,
        target: CountedTarget,
        *,
        generator: torch.Generator,
        ledger: Ledger,
        saved: Checkpoint | None = None,
        start: Flow | None = None,
        device: torch.device | None = None,
    ) -> None:
        if device is not None and device != generator.device:
            seed = generator.initial_seed()
            flow, generator = flow.to(device), torch.Generator(device).manual_seed(seed)
            start = None if start is None else start.to(device)
        self.method, self.ledger = method, ledger
        self.rows: list[Row] = []
        self._last: Row = saved["row"] if saved else {}
        self.generator = generator
        self._before = float(saved["seconds"]) if saved else 0.0
        self._begin = time.monotonic()
        target.ledger = ledger
        self.state = method.init(flow, target)
        self.state.start = None if start is None else start.requires_grad_(requires_grad=False)
        if saved:
            try:
                self.state.restore(own_part(on(saved["state"], flow.device), self.state.divided, saved.get("parts")))
            except (RuntimeError, KeyError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())[:200]
                raise InputError(
                    f"the checkpoint does not fit the configuration, which was changed: {reason}"
                ) from error
            self._check_threads(saved["threads"])
        self._begin_generator(saved, flow.device)
        # The same weights everywhere, to the last bit, also where hosts are of different makes.
        ranks().follow(list(flow.state_dict().values()))
        ledger.begin()
        self.left = self.method.steps_left(self.state)

    @property
    def seconds(self) -> float:
        """Time in seconds, summed over all resumed parts."""
        return self._before + time.monotonic() - self._begin

    def steps(self, progress: Progress) -> Iterator[StepInfo]:
        """Train step by step until the method is finished.

        Raises:
            RunError: A step failed after all retries; the state is that before the step.
        """
        while not self.method.finished(self.state):
            info = self.method.step(self.state, generator=self.generator, progress=progress)
            self.ledger.agree()
            self.left = self.method.steps_left(self.state)
            row: Row = info._asdict()
            self.rows.append(row | {"evaluations": self.ledger.cost, "seconds": round(self.seconds, 3)})
            yield info

    def checkpoint(self) -> Checkpoint:
        """Everything needed to resume bitwise reproducibly, with the last row of the metrics; the same on all ranks."""
        state, parts = joined(self.state.save(), self.state.divided)
        generators = torch.split(ranks().gather(self.generator.get_state()), len(self.generator.get_state()))
        more = {} if ranks().alone else {"parts": parts, "generators": [part.clone() for part in generators]}
        return {
            "state": state,
            "generator": generators[0],
            "ledger": self.ledger.to_json(),
            "row": self.rows[-1],
            "seconds": self.seconds,
            "threads": torch.get_num_threads(),
        } | more

    def status(self, state: str, message: str = "") -> Status:
        """The present status."""
        # A training may end before its last planned step, when it reaches the target or uses up its budget.
        left = 0 if state == "done" else self.left
        step = self.state.step
        last = self.rows[-1] if self.rows else self._last
        return Status(
            state=state,
            message=message,
            step=step,
            steps=step + left,
            gradient_steps=self.state.gradient_steps,
            seconds=self.seconds,
            warning=shortfall(last) if state == "done" else "",
        )

    def _begin_generator(self, saved: Checkpoint | None, device: torch.device) -> None:
        """Every rank draws its own numbers; rank 0 those of a training without other ranks."""
        seed = self.generator.initial_seed()
        known = saved.get("generators", [saved["generator"]]) if saved else []
        if saved and len(known) == ranks().world:
            self.generator.set_state(known[ranks().rank])
        elif saved and ranks().leads:
            self.generator.set_state(saved["generator"])
        elif not ranks().leads:
            # After a change of the number of ranks, the former numbers must not come again.
            self.generator.set_state(of_rank(seed, ranks().rank, step=self.state.step, device=device).get_state())
        if saved and len(known) != ranks().world:
            _LOG.warning(
                "the run had %d processes and now has %d: it goes on with other random numbers",
                len(known),
                ranks().world,
            )

    def _check_threads(self, before: int) -> None:
        now = torch.get_num_threads()
        if before != now:
            _LOG.warning("the run had %d threads and now has %d: it is not bitwise reproducible", before, now)
