"""Settings of FAB."""

import math
from dataclasses import dataclass

from boltzport.training.checks import check
from boltzport.training.given import Settings
from boltzport.training.optimiser import OptimiserConfig, Schedule


@dataclass(frozen=True, kw_only=True)
class FABConfig(Settings):
    """Settings of FAB.

    Attributes:
        steps: Number of steps, each followed by a checkpoint.
        passes: Number of passes of annealed importance sampling per step.
        gradient_steps: Number of gradient steps after each pass.
        batch_size: Number of points per pass and per gradient step.
        intermediate: Number of densities between the flow and p^2 / q, each with one HMC trajectory.
        leapfrog: Number of leapfrog steps per trajectory.
        step_size: Initial leapfrog step size, in units of the base density's widths (a tenth of the range where it is
            uniform).
        tune: Whether step sizes are adapted to an acceptance rate of 0.65, separately for each intermediate density.
        buffer_min: Number of points in the buffer before the first gradient step, less those that failed.
        buffer_max: Maximum number of points in the buffer; 0 for no buffer, so that each pass is used only once.
        clip: Upper bound of the factor that corrects a weight for the change of the flow since it was last computed.
        learning_rate: Peak learning rate of Adam.
        warmup: Number of gradient steps over which the learning rate rises to its peak.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: Weight decay of Adam.
        max_gradient_norm: Gradients with a larger norm are clipped to this norm.
        average: Decay, per gradient step, of the exponential moving average of the flow's weights; 0 for no averaging.

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
            "passes": (1.0, math.inf),
            "batch_size": (2.0, math.inf),
            "intermediate": (1.0, 1000.0),
            "leapfrog": (1.0, 1000.0),
            "buffer_min": (0.0, math.inf),
            "buffer_max": (0.0, math.inf),
            "clip": (1.0, math.inf),
        }
        check(self, ranges=ranges, positive=["step_size"])

    @property
    def filling(self) -> int:
        """Number of passes that fill the buffer before the first gradient step."""
        return math.ceil(min(self.buffer_min, self.buffer_max) / self.batch_size)

    @property
    def optimiser(self) -> OptimiserConfig:
        """Settings of the optimiser."""
        return OptimiserConfig.of(self)
