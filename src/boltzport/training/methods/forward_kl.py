"""Forward KL: maximum likelihood on samples of the target, from molecular dynamics or any other source."""

import math
from dataclasses import dataclass, replace

import torch

from boltzport.core.errors import InputError, RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.base import Method, Progress, StepInfo, WeightedPoints
from boltzport.training.buffer import draw
from boltzport.training.checks import check
from boltzport.training.descent import DescentState
from boltzport.training.fit import FitConfig, FitData, fit
from boltzport.training.given import Settings
from boltzport.training.optimiser import OptimiserConfig, Schedule
from boltzport.training.state import unchanged_on_failure


@dataclass(frozen=True, kw_only=True)
class ForwardKLConfig(Settings):
    """Settings of maximum likelihood.

    Attributes:
        data: Directory of the reference ensemble that a molecule is trained on; a toy draws its own samples.
        samples: Number of training samples: drawn from a toy, or frames taken from a reference at equal intervals (all
            frames if it has fewer).
        hold_out: Fraction of the samples, taken from the first, that is held out to judge the training. The frames of a
            reference are ordered by chain and time, so the held-out ones share at most one chain with the rest.
        monitor: Number of samples of the flow at which the target is evaluated after each step, only for the metrics;
            0 for none.
        steps: Number of steps, each followed by a checkpoint and a row of metrics.
        gradient_steps: Number of gradient steps per step.
        batch_size: Number of samples per gradient step.
        learning_rate: Peak learning rate of Adam.
        warmup: Number of gradient steps over which the learning rate rises to its peak.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: Weight decay of Adam.
        max_gradient_norm: Gradients with a larger norm are clipped to this norm.
        average: Decay, per gradient step, of the exponential moving average of the flow's weights; 0 for no averaging.

    Example:
        >>> import boltzport as bp
        >>> bp.ForwardKL(samples=1000).samples
        1000
    """

    data: str = ""
    samples: int = 200_000
    hold_out: float = 0.05
    monitor: int = 2000
    steps: int = 40
    gradient_steps: int = 200
    batch_size: int = 1000
    learning_rate: float = 1e-3
    warmup: int = 100
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 0.0
    max_gradient_norm: float = 100.0
    average: float = 0.0

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "samples": (2.0, math.inf),
            "hold_out": (0.0, 0.5),
            "monitor": (0.0, math.inf),
        }
        check(self, ranges=ranges)

    @property
    def fit(self) -> FitConfig:
        """Settings of a fit."""
        return FitConfig(
            gradient_steps=self.gradient_steps,
            batch_size=self.batch_size,
            hold_out=self.hold_out,
            learned=0.0,
            check_every=self.gradient_steps,
        )


class ForwardKL(Method[DescentState]):
    """Maximum likelihood training on samples of the target.

    Args:
        config: Settings.
        samples: Samples of the target, all within the flow's range.

    Raises:
        InputError: There are too few samples.
    """

    def __init__(self, config: ForwardKLConfig, samples: WeightedPoints) -> None:
        self.config = config
        count = len(samples.log_weights)
        if count - math.ceil(config.hold_out * count) < 1:
            raise InputError(f"forward-kl: expected more samples than the held-out ones, got {count}")
        # The density itself is not known, so the divergence of the fit is the cross-entropy.
        log_weights = samples.log_weights.double()
        data = FitData(samples.coordinates, log_weights, torch.zeros_like(log_weights))
        # Every rank has all samples and learns from its own; the first ones, which are held out, are so on all ranks.
        self._data = data.part(slice(ranks().rank, None, ranks().world))

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.config.steps

    def init(self, flow: Flow, target: CountedTarget) -> DescentState:
        """Return the initial state of a training."""
        return DescentState(flow, target, OptimiserConfig.of(self.config))

    def step(self, state: DescentState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Do gradient steps, then monitor the flow."""
        with unchanged_on_failure(state):
            return self._step(state, generator, progress)

    def _step(self, state: DescentState, generator: torch.Generator, progress: Progress) -> StepInfo:
        data, device = self._data, state.flow.device
        data = data._replace(
            coordinates=data.coordinates.to(next(state.flow.parameters())),
            log_weights=data.log_weights.to(device),
            log_density=data.log_density.to(device),
        )
        fitted = fit(
            state.flow.log_prob,
            state.optimiser,
            data,
            self.config.fit,
            generator=generator,
            progress=progress,
            span=(state.step / self.steps, (state.step + 1) / self.steps),
        )
        if not math.isfinite(fitted.loss):
            raise RunError(
                f"step {state.step + 1}: the gradient is not finite. The flow of step {state.step} is kept; "
                "a smaller learning_rate may help"
            )
        state.step += 1
        state.gradient_steps += fitted.gradient_steps
        row = StepInfo(
            step=state.step,
            gradient_steps=state.gradient_steps,
            loss=fitted.loss,
            gradient_norm=fitted.gradient_norm,
            test_loss=fitted.after if self.config.hold_out else None,
            learning_rate=state.optimiser.learning_rate,
        )
        return self._look(state, row, generator, progress) if self.config.monitor else row

    def _look(self, state: DescentState, row: StepInfo, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Metrics of the flow's own samples; the training does not use them, and continues if they all fail."""
        count = self.config.monitor
        try:
            drawn = draw(
                state.flow, state.target, count, generator=generator, progress=progress, purpose=Purpose.MONITORING
            )
        except RunError:
            return row._replace(failed=count)
        found = reweighting(ranks().gather(drawn.log_weights))
        entropy = -float(ranks().gather(drawn.buffer.log_q).mean())
        return row.weighed(found)._replace(entropy=entropy, drawn=1.0)


def within_budget(config: ForwardKLConfig, budget: float) -> ForwardKLConfig:
    """Scale the settings so that they evaluate the target at most `budget` times.

    The training itself does not evaluate the target, so only `monitor` is reduced. The cost of the samples is not
    counted here: it was paid when they were generated.
    """
    return replace(config, monitor=min(config.monitor, int(budget // config.steps)))
