"""The state of a method that only descends: a flow and its optimiser."""

import copy

from boltzport.flow import Flow
from boltzport.methods.base import Checkpoint, State
from boltzport.methods.optimiser import Optimiser, OptimiserConfig
from boltzport.targets import CountedTarget


class DescentState(State):
    """State of a training by descent.

    Args:
        flow: The flow that is trained.
        target: The density.
        config: Settings of the optimiser.
    """

    def __init__(self, flow: Flow, target: CountedTarget, config: OptimiserConfig) -> None:
        self.flow = flow
        self.target = target
        self.step = 0
        self.gradient_steps = 0
        self.optimiser = Optimiser(flow.parameters(), config)

    def result(self) -> Flow:
        """The flow to use."""
        return self.optimiser.averaged(self.flow)

    def save(self) -> Checkpoint:
        """All of the state but the target."""
        return {
            "flow": copy.deepcopy(self.flow.state_dict()),
            "step": self.step,
            "gradient_steps": self.gradient_steps,
            "optimiser": self.optimiser.save(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over what `save` gave."""
        self.flow.load_state_dict(checkpoint["flow"])
        self.step, self.gradient_steps = checkpoint["step"], checkpoint["gradient_steps"]
        self.optimiser.restore(checkpoint["optimiser"])
