"""Reverse KL: minimises the divergence from flow to target on samples of the flow alone; mode-seeking.

For points x = T(z) of the flow, KL(q || p) = E[log q(x) - log p(x)] up to log Z, differentiated through x.
"""

import math
from dataclasses import dataclass, replace

import torch

from boltzport.core.errors import InputError, RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget
from boltzport.training.base import Method, Progress, StepInfo
from boltzport.training.checks import check
from boltzport.training.descent import DescentState
from boltzport.training.given import Settings
from boltzport.training.optimiser import OptimiserConfig, Schedule
from boltzport.training.path_gradient import SampledLoss, path_loss
from boltzport.training.reverse import reverse_loss
from boltzport.training.state import unchanged_on_failure

MOST_FAILED = 0.9
"""A step fails if more than this fraction of its points has no finite density or gradient."""


@dataclass(frozen=True, kw_only=True)
class ReverseKLConfig(Settings):
    """Settings of reverse KL.

    Attributes:
        steps: Number of steps, each followed by a checkpoint and a row of metrics.
        gradient_steps: Number of gradient steps per step.
        batch_size: Number of points drawn for a gradient step.
        remove_highest: Number of points with the highest energies that are left out of each batch.
        path_gradient: Whether the score of the flow, whose mean is zero, is left out of the gradient (sticking the
            landing).
        learning_rate: Peak learning rate of Adam.
        warmup: Number of gradient steps over which the learning rate rises to its peak.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: Weight decay of Adam.
        max_gradient_norm: Gradients with a larger norm are clipped to this norm.
        average: Decay, per gradient step, of the exponential moving average of the flow's weights; 0 for no averaging.

    Example:
        >>> import boltzport as bp
        >>> bp.ReverseKL(steps=5).steps
        5
    """

    steps: int = 50
    gradient_steps: int = 100
    batch_size: int = 1000
    remove_highest: int = 0
    path_gradient: bool = False
    learning_rate: float = 5e-4
    warmup: int = 100
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 0.0
    max_gradient_norm: float = 100.0
    average: float = 0.0

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "batch_size": (2.0, math.inf),
            "remove_highest": (0.0, self.batch_size - 1.0),
        }
        check(self, ranges=ranges)


class ReverseKL(Method[DescentState]):
    """Reverse KL training on samples of the flow.

    Args:
        config: Settings.
    """

    def __init__(self, config: ReverseKLConfig) -> None:
        self.config = config

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.config.steps

    def init(self, flow: Flow, target: CountedTarget) -> DescentState:
        """Return the initial state of a training."""
        return DescentState(flow, target, OptimiserConfig.of(self.config))

    def step(self, state: DescentState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Do gradient steps on fresh points; the metrics use all of them, each weighted by the flow that drew it.

        A batch without a finite gradient is skipped, and its points are counted as failed.
        """
        with unchanged_on_failure(state):
            return self._step(state, generator, progress)

    def _step(self, state: DescentState, generator: torch.Generator, progress: Progress) -> StepInfo:
        config = self.config
        log_weights, losses, norms, moved = [], 0.0, 0.0, 0
        for done in range(config.gradient_steps):
            drawn = self._loss(state, generator)
            norm = state.optimiser.step(drawn.loss, progress=(state.step + done / config.gradient_steps) / self.steps)
            if math.isfinite(norm):
                losses, norms, moved = losses + float(drawn.loss.detach()), norms + norm, moved + 1
                log_weights.append(drawn.log_weights)
            else:
                log_weights.append(torch.full_like(drawn.log_weights, torch.nan))
            progress("fit", done + 1, config.gradient_steps)
        everything = ranks().gather(torch.cat(log_weights))
        reached, points = reweighting(everything), len(everything)
        if reached.failed > MOST_FAILED * points:
            raise RunError(
                f"step {state.step + 1}: {reached.failed} of {points} points have no finite density or gradient. "
                f"The flow of step {state.step} is kept; a smaller learning_rate may help"
            )
        state.step += 1
        state.gradient_steps += config.gradient_steps
        return StepInfo(
            step=state.step,
            gradient_steps=state.gradient_steps,
            # The value of the path gradient loss has no meaning.
            loss=None if config.path_gradient else ranks().mean(losses / moved),
            gradient_norm=norms / moved,
            drawn=0.5,
            learning_rate=state.optimiser.learning_rate,
        ).weighed(reached)

    def _loss(self, state: DescentState, generator: torch.Generator) -> SampledLoss:
        config = self.config
        make = path_loss if config.path_gradient else reverse_loss
        size, leave_out = ranks().each(config.batch_size), ranks().share(config.remove_highest)
        return make(state.flow, state.target, size, generator=generator, leave_out=leave_out)


def within_budget(config: ReverseKLConfig, budget: float) -> ReverseKLConfig:
    """Scale the settings so that they evaluate the target `budget` times, or slightly less because of rounding.

    The batch size is kept, and so is the number of steps as long as each has a gradient step; the number of gradient
    steps is adapted. The warm-up is at most a tenth of them.

    Raises:
        InputError: The budget is too small for a single batch.
    """
    total = int(budget // config.batch_size)
    if total < 1:
        raise InputError(f"budget: expected at least {config.batch_size} evaluations (one batch), got {budget:g}")
    steps = min(config.steps, total)
    gradient_steps = total // steps
    warmup = min(config.warmup, steps * gradient_steps // 10)
    return replace(config, steps=steps, gradient_steps=gradient_steps, warmup=warmup)
