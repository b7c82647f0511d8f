"""Settings of FAB."""

import math
from dataclasses import dataclass

from boltzport.methods.checks import check
from boltzport.methods.given import Settings
from boltzport.methods.optimiser import OptimiserConfig, Schedule


@dataclass(frozen=True, kw_only=True)
class FABConfig(Settings):
    """Settings of FAB.

    Attributes:
        steps: Steps; each is followed by a checkpoint.
        passes: Passes of annealed importance sampling in a step.
        gradient_steps: Gradient steps after a pass.
        batch_size: Points of a pass, and of a gradient step.
        intermediate: Densities between the flow and p^2 / q, each with one HMC trajectory.
        leapfrog: Leapfrog steps of a trajectory.
        step_size: First leapfrog step, in units of the base density's widths (a tenth of the range where it is
            uniform).
        tune: Whether step sizes follow an acceptance of 0.65, separately for each intermediate density.
        buffer_min: Points in the buffer before the first gradient step, as far as their densities are finite.
        buffer_max: Most points in the buffer; 0 for no buffer: a pass is learned from and forgotten.
        clip: Largest correction of a weight for the change of the flow since it was last seen.
        learning_rate: Highest learning rate of Adam.
        warmup: Gradient steps over which it rises.
        schedule: How it falls.
        weight_decay: Adam's.
        max_gradient_norm: Longer gradients are shortened to it.
        average: Weight of the past in the running average of the flow's weights, per gradient step; 0 for none.

    Example:
        >>> import boltzport as bp
        >>> bp.FAB(steps=5).steps
        5
    """

    steps: int = 40
    passes: int = 10
    gradient_steps: int = 8
    batch_size: int = 1000
    intermediate: int = 4
    leapfrog: int = 4
    step_size: float = 0.1
    tune: bool = True
    buffer_min: int = 20_000
    buffer_max: int = 200_000
    clip: float = 10.0
    learning_rate: float = 5e-4
    warmup: int = 100
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 0.0
    max_gradient_norm: float = 100.0
    average: float = 0.0

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "steps": (1.0, math.inf),
            "passes": (1.0, math.inf),
            "gradient_steps": (1.0, math.inf),
            "batch_size": (2.0, math.inf),
            "intermediate": (1.0, 1000.0),
            "leapfrog": (1.0, 1000.0),
            "buffer_min": (0.0, math.inf),
            "buffer_max": (0.0, math.inf),
            "clip": (1.0, math.inf),
            "warmup": (0.0, math.inf),
            "weight_decay": (0.0, math.inf),
            "average": (0.0, 0.999999),
        }
        check(self, ranges=ranges, positive=["step_size", "learning_rate", "max_gradient_norm"])

    @property
    def filling(self) -> int:
        """Passes that fill the buffer before the first gradient step."""
        return math.ceil(min(self.buffer_min, self.buffer_max) / self.batch_size)

    @property
    def optimiser(self) -> OptimiserConfig:
        """The settings of the optimiser among these."""
        return OptimiserConfig.of(self)
