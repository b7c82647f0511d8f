"""State of a training by constrained mass transport."""

import math
from typing import Any, ClassVar

from torch import Tensor

from boltzport.flows import Flow, HalvedFlow
from boltzport.targets import CountedTarget
from boltzport.training.anchor import Anchors
from boltzport.training.base import Checkpoint, State
from boltzport.training.methods.cmt.apart import Apart
from boltzport.training.methods.cmt.config import CMTConfig
from boltzport.training.methods.cmt.learners import Learner, Whole
from boltzport.training.methods.cmt.path import PathPoint
from boltzport.training.methods.cmt.reuse import Formers


class CMTState(State):
    """State of a training by constrained mass transport.

    Args:
        flow: The flow being trained.
        target: Target density.
        config: Settings.

    Attributes:
        arrived: Number of annealing steps, once the annealing is over.
        refine: Number of refining steps.
        renew: Number of gradient steps that retrain the stiff half in the first refining step.
        multipliers: Multipliers of the trust region by step, which indicate the distance to the target.
        best: Weights of the best flow since the annealing, if the halves are trained separately.
        best_refined: ESS fraction of that flow.
    """

    divided: ClassVar[tuple[str, ...]] = (
        "anchors.*",
        "formers.kept.*.1.*",
        "formers.kept.*.2",
        "learner.pool.kept.*.[012]",
        "learner.chains.coordinates",
        "learner.chains.slope",
        "learner.chains.log_density",
    )

    def __init__(self, flow: Flow, target: CountedTarget, config: CMTConfig) -> None:
        super().__init__(flow, target)
        self.config = config
        self.point = PathPoint()
        self.log_z_path = 0.0
        self.learner = _learner(flow, target, config)
        self.formers = Formers(config.reuse)
        self.best_ess = 0.0
        self.idle = 0
        self.proposals: list[dict[str, Tensor]] = []
        self.anchors: Anchors | None = None
        self.arrived: int | None = None
        self.refine = 0
        self.renew = 0
        self.multipliers: list[float] = []
        self.best: dict[str, Tensor] | None = None
        self.best_refined = 0.0

    @property
    def refining(self) -> bool:
        """Whether the annealing is over."""
        return self.arrived is not None

    @property
    def refined(self) -> int:
        """Number of steps since the annealing."""
        return 0 if self.arrived is None else self.step - self.arrived

    def arrive(self) -> None:
        """End the annealing."""
        self.arrived = self.step
        left = self.config.budget - self.target.ledger.cost
        self.renew = self._renewal(left)
        left -= self.renew * self.config.refine_stiff_batch
        each = self.config.step_evaluations(refining=True)
        planned = self.config.refinements(self.flow.dimension)
        self.refine = planned if math.isinf(left) else max(0, min(planned, int(left // each)))

    def _renewal(self, left: float) -> int:
        """Number of gradient steps that retrain the stiff half: at most a third of the remaining evaluations."""
        if not (self.target.differentiable and isinstance(self.learner, Apart)):
            return 0
        planned = self.config.renewal(self.flow.dimension)
        return int(min(planned.gradient_steps, max(left, 0.0) / 3 // planned.batch_size))

    def keep_if_best(self, ess: float) -> None:
        """Keep the weights of the flow if its ESS fraction is the best so far."""
        if ess > self.best_refined:
            self.best, self.best_refined = self.weights(), ess

    def back_to_best(self) -> None:
        """Return to the best weights."""
        if self.best is not None:
            self.flow.load_state_dict(self.best)
            self.learner.begin_refining()

    def weights(self) -> dict[str, Tensor]:
        """A copy of the flow's weights."""
        return {name: value.clone() for name, value in self.flow.state_dict().items()}

    def result(self) -> Flow:
        """Return the flow to use."""
        return self.learner.averaged()

    def save_parts(self) -> Checkpoint:
        """Return the position on the path, and the state of learner, former flows and anchors."""
        record: dict[str, Any] = {name: _copied(getattr(self, name)) for name in _PLAIN}
        return record | {
            "point": [self.point.alpha, self.point.beta],
            "learner": self.learner.save(),
            "formers": self.formers.save(),
            "anchors": list(self.anchors) if self.anchors is not None else None,
        }

    def restore_parts(self, checkpoint: Checkpoint) -> None:
        """Restore the parts from a checkpoint."""
        for name in _PLAIN:
            # Older checkpoints do not have all of these fields.
            setattr(self, name, _copied(checkpoint.get(name, getattr(self, name))))
        alpha, beta = checkpoint["point"]
        self.point = PathPoint(alpha=alpha, beta=beta)
        self.learner.restore(checkpoint["learner"])
        self.formers.restore(checkpoint["formers"])
        self.anchors = Anchors(*checkpoint["anchors"]) if checkpoint["anchors"] is not None else None


_PLAIN = (
    "log_z_path",
    "best_ess",
    "idle",
    "proposals",
    "arrived",
    "refine",
    "renew",
    "multipliers",
    "best",
    "best_refined",
)
"""Fields that a checkpoint stores unchanged."""


def _copied(value: Any) -> Any:
    """The value; of a list, which a step extends, a copy."""
    return list(value) if isinstance(value, list) else value


def _learner(flow: Flow, target: CountedTarget, config: CMTConfig) -> Learner:
    if config.apart and isinstance(flow, HalvedFlow) and len(flow.torsions) and len(flow.stiff):
        return Apart(flow, target, config)
    return Whole(flow, config)
