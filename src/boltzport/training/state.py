"""State of a training: everything that a method needs to resume."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, final

from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import LostProcess, RunError
from boltzport.flows import Flow
from boltzport.targets import CountedTarget

Checkpoint = dict[str, Any]
"""Tensors, numbers and strings in dictionaries and lists, as `torch.load` reads with `weights_only`."""


class State(ABC):
    """Everything that a method needs to resume; a checkpoint holds this and the random generator.

    Args:
        flow: The flow to train.
        target: Target density.

    Attributes:
        flow: The flow being trained.
        target: Target density.
        start: Trained flow that the training starts from; None if it starts from the untrained one.
        step: Number of completed steps.
        gradient_steps: Number of completed gradient steps.
        divided: Entries of a checkpoint that are points of which each rank has its own, as patterns of their paths.
    """

    divided: ClassVar[tuple[str, ...]] = ()

    def __init__(self, flow: Flow, target: CountedTarget) -> None:
        self.flow, self.target = flow, target
        self.start: Flow | None = None
        self.step = 0
        self.gradient_steps = 0

    @final
    def log_initial(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the flow at the beginning of the training, q_0, with respect to the coordinates."""
        # That of an untrained flow is known in closed form; a trained one is evaluated.
        density = self.flow.initial_log_prob if self.start is None else self.start.log_prob
        return density(coordinates)

    @abstractmethod
    def result(self) -> Flow:
        """Return a copy of the flow for use, with averaged weights if the method averages them."""

    @abstractmethod
    def save_parts(self) -> Checkpoint:
        """Return what a checkpoint holds in addition to the flow and the counters."""

    @abstractmethod
    def restore_parts(self, checkpoint: Checkpoint) -> None:
        """Restore the parts from a checkpoint; flow and counters are already restored."""

    @final
    def save(self) -> Checkpoint:
        """Return the state as a checkpoint, which later steps do not modify; the target is not included."""
        flow = copy.deepcopy(self.flow.state_dict())
        return {"flow": flow, "step": self.step, "gradient_steps": self.gradient_steps} | self.save_parts()

    @final
    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self.flow.load_state_dict(checkpoint["flow"])
        self.step, self.gradient_steps = checkpoint["step"], checkpoint["gradient_steps"]
        self.restore_parts(checkpoint)


@contextmanager
def unchanged_on_failure(state: State) -> Iterator[None]:
    """Restore the state if the step in this block fails or is interrupted."""
    before = state.save()
    try:
        yield
    except (RunError, LostProcess, KeyboardInterrupt):
        state.restore(before)
        raise
