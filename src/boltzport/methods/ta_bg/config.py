"""Settings of a temperature-annealed generator, its ladder of temperatures, and settings for a budget."""

import math
from dataclasses import dataclass, replace

from boltzport.errors import InputError
from boltzport.methods.checks import check
from boltzport.methods.fit import FitConfig
from boltzport.methods.given import Settings
from boltzport.methods.optimiser import OptimiserConfig, Schedule

PASSES = 10
"""How often a point may serve in a fit before the fit learns the point instead of the density."""
LEAST_BATCHES = 10
"""Batches that a buffer holds at least, where a budget decides."""


@dataclass(frozen=True, kw_only=True)
class TABGConfig(Settings):
    """Settings of a temperature-annealed generator; temperatures are in units of the target's own.

    Attributes:
        hot: Temperature of the pre-training.
        rungs: Reductions of the temperature, by equal factors, from there to the target's.
        repeats: Fits at each temperature in between; those after the first are fine-tuning.
        final: Fits at the target's temperature.
        pretrain_steps: Steps of the pre-training.
        pretrain_gradient_steps: Gradient steps of each.
        pretrain_batch: Points of a gradient step of the pre-training.
        pretrain_rate: Highest learning rate of the pre-training.
        remove_highest: Points of highest energy in such a batch that are left out.
        path_gradient: Leave the score of the flow out of the gradient of the pre-training (sticking the landing).
        warmup: Gradient steps of the pre-training over which the learning rate rises.
        weight_decay: Adam's, in the pre-training.
        max_gradient_norm: Longer gradients of the pre-training are shortened to it.
        buffer_size: Points drawn for a fit.
        resampled_to: Points of equal weight made of them.
        gradient_steps: Gradient steps of a fit.
        batch_size: Points of a gradient step of a fit.
        learning_rate: Learning rate that each fit begins with.
        schedule: How it falls within the fit.
        fit_gradient_norm: Longer gradients of a fit are shortened to it.
        clip: Part of a buffer with the largest weights, which are set to the smallest of them.

    Example:
        >>> import boltzport as bp
        >>> bp.TABG(rungs=3).rungs
        3
    """

    hot: float = 4.0
    rungs: int = 9
    repeats: int = 1
    final: int = 2
    pretrain_steps: int = 10
    pretrain_gradient_steps: int = 200
    pretrain_batch: int = 256
    pretrain_rate: float = 1e-3
    remove_highest: int = 10
    path_gradient: bool = False
    warmup: int = 100
    weight_decay: float = 0.0
    max_gradient_norm: float = 100.0
    buffer_size: int = 50_000
    resampled_to: int = 50_000
    gradient_steps: int = 250
    batch_size: int = 1000
    learning_rate: float = 1e-3
    schedule: Schedule = Schedule.COSINE
    fit_gradient_norm: float = 100.0
    clip: float = 1e-4

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "hot": (1.0, math.inf),
            "rungs": (1.0, math.inf),
            "repeats": (1.0, math.inf),
            "final": (1.0, math.inf),
            "pretrain_steps": (1.0, math.inf),
            "pretrain_gradient_steps": (1.0, math.inf),
            "pretrain_batch": (2.0, math.inf),
            "remove_highest": (0.0, self.pretrain_batch - 1.0),
            "warmup": (0.0, math.inf),
            "weight_decay": (0.0, math.inf),
            "buffer_size": (2.0, math.inf),
            "resampled_to": (1.0, math.inf),
            "gradient_steps": (1.0, math.inf),
            "batch_size": (1.0, math.inf),
            "clip": (0.0, 0.5),
        }
        check(
            self, ranges=ranges, positive=["pretrain_rate", "max_gradient_norm", "learning_rate", "fit_gradient_norm"]
        )
        if math.isinf(self.hot):
            raise InputError("hot: expected a finite temperature, got inf")

    @property
    def fits(self) -> int:
        """Fits of the whole ladder."""
        return (self.rungs - 1) * self.repeats + self.final

    @property
    def pretraining(self) -> OptimiserConfig:
        """The settings of the optimiser that pre-trains."""
        return OptimiserConfig(
            learning_rate=self.pretrain_rate,
            warmup=self.warmup,
            schedule=Schedule.COSINE,
            weight_decay=self.weight_decay,
            max_gradient_norm=self.max_gradient_norm,
            average=0.0,
        )

    @property
    def annealing(self) -> OptimiserConfig:
        """The settings of the optimiser of the fits."""
        return OptimiserConfig(
            learning_rate=self.learning_rate,
            warmup=0,
            schedule=self.schedule,
            weight_decay=0.0,
            max_gradient_norm=self.fit_gradient_norm,
            average=0.0,
        )

    @property
    def fit(self) -> FitConfig:
        """The settings of a fit among these; resampled points repeat, so none of them can judge it."""
        return FitConfig(
            gradient_steps=self.gradient_steps,
            batch_size=self.batch_size,
            hold_out=0.0,
            learned=0.0,
            check_every=self.gradient_steps,
        )


def temperatures(config: TABGConfig) -> tuple[float, ...]:
    """The temperature of the pre-training and of every fit after it, in units of the target's.

    Example:
        >>> temperatures(TABGConfig(hot=4.0, rungs=2, repeats=2, final=1))
        (4.0, 2.0, 2.0, 1.0)
    """
    between = [config.hot ** (1.0 - rung / config.rungs) for rung in range(1, config.rungs)]
    return (config.hot, *(value for value in between for _ in range(config.repeats)), *([1.0] * config.final))


def evaluations(config: TABGConfig) -> int:
    """How often the target is evaluated: once for every point of the pre-training and of the buffers."""
    pretraining = config.pretrain_steps * config.pretrain_gradient_steps * config.pretrain_batch
    return pretraining + config.fits * config.buffer_size


def within_budget(config: TABGConfig, budget: float) -> TABGConfig:
    """Settings that evaluate the target no more than `budget` times.

    The ladder stays as it is. Where the budget is smaller than the settings, pre-training and buffers shrink by the
    same factor; where it is larger, the buffers grow. A fit goes over its points no more than ten
    times, or than it does with the settings as they are: the paper's do so 30 times.

    Raises:
        InputError: Not even ten batches fit in each buffer.
    """
    most = config.pretrain_steps * config.pretrain_gradient_steps
    part = most * config.pretrain_batch / evaluations(config)
    affordable = min(most, int(budget * part // config.pretrain_batch))
    pretrain_steps = max(1, min(config.pretrain_steps, affordable))
    pretrain_gradient_steps = max(1, affordable // pretrain_steps)
    pretraining = pretrain_steps * pretrain_gradient_steps
    buffer_size = int((budget - pretraining * config.pretrain_batch) // config.fits)
    if buffer_size < LEAST_BATCHES * config.batch_size:
        least = config.fits * LEAST_BATCHES * config.batch_size / (1.0 - part) + config.pretrain_batch
        raise InputError(
            f"budget: expected at least {math.ceil(least)} evaluations (a pre-training, and ten batches for each of "
            f"{config.fits} fits), got {budget:g}; fewer rungs or a smaller batch_size need less"
        )
    resampled_to = max(config.batch_size, round(config.resampled_to * buffer_size / config.buffer_size))
    ten_times = PASSES * resampled_to // config.batch_size
    as_often = config.gradient_steps * resampled_to // config.resampled_to
    return replace(
        config,
        pretrain_steps=pretrain_steps,
        pretrain_gradient_steps=pretrain_gradient_steps,
        warmup=min(config.warmup, pretraining // 5),
        buffer_size=buffer_size,
        resampled_to=resampled_to,
        gradient_steps=min(config.gradient_steps, max(1, ten_times, as_often)),
    )
