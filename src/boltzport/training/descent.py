"""State of a method that only does gradient descent: a flow and its optimiser."""

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
        super().__init__(flow, target)
        self.optimiser = Optimiser(flow.parameters(), config)

    def result(self) -> Flow:
        """Return the flow to use."""
        return self.optimiser.averaged(self.flow)

    def save_parts(self) -> Checkpoint:
        """Return the state of the optimiser."""
        return {"optimiser": self.optimiser.save()}

    def restore_parts(self, checkpoint: Checkpoint) -> None:
        """Restore the optimiser."""
        self.optimiser.restore(checkpoint["optimiser"])
