"""State of a method that only does gradient descent: a flow and its optimiser."""

import copy

from boltzport.flows import Flow
from boltzport.targets import CountedTarget
from boltzport.training.base import Checkpoint, State
from boltzport.training.optimiser import Optimiser, OptimiserConfig


class DescentState(State):
    """State of a training by gradient descent.

    Args:
        flow: The flow being trained.
        target: Target density.
        config: Settings of the optimiser.
    """

    def __init__(self, flow: Flow, target: CountedTarget, config: OptimiserConfig) -> None:
        self.flow = flow
        self.target = target
        self.step = 0
        self.gradient_steps = 0
        self.optimiser = Optimiser(flow.parameters(), config)

    def result(self) -> Flow:
        """Return the flow to use."""
        return self.optimiser.averaged(self.flow)

    def save(self) -> Checkpoint:
        """Return the state as a checkpoint; the target is not included."""
        return {
            "flow": copy.deepcopy(self.flow.state_dict()),
            "step": self.step,
            "gradient_steps": self.gradient_steps,
            "optimiser": self.optimiser.save(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self.flow.load_state_dict(checkpoint["flow"])
        self.step, self.gradient_steps = checkpoint["step"], checkpoint["gradient_steps"]
        self.optimiser.restore(checkpoint["optimiser"])
