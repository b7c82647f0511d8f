"""Settings of temperature-annealed Boltzmann generators: the temperature ladder, and settings for a budget."""

import math
from dataclasses import dataclass, replace

from boltzport.core.errors import InputError
from boltzport.training.checks import check
from boltzport.training.fit import FitConfig
from boltzport.training.given import Settings
from boltzport.training.optimiser import OptimiserConfig, Schedule

PASSES = 10
"""Largest number of passes over a buffer in one fit; more lead to overfitting."""
LEAST_BATCHES = 10
"""Smallest number of batches per buffer when the budget sets its size."""


@dataclass(frozen=True, kw_only=True)
class TABGConfig(Settings):
    """Settings of temperature-annealed Boltzmann generators; temperatures are in units of the target's own.

    Attributes:
        hot: Temperature of the pre-training.
        rungs: Number of temperature reductions, by equal factors, from `hot` to the target's temperature.
        repeats: Number of fits at each intermediate temperature; those after the first are fine-tuning.
        final: Number of fits at the target's temperature.
        pretrain_steps: Number of steps of the pre-training.
        pretrain_gradient_steps: Number of gradient steps per step of the pre-training.
        pretrain_batch: Number of points per gradient step of the pre-training.
        pretrain_rate: Peak learning rate of the pre-training.
        remove_highest: Number of points with the highest energies that are left out of each pre-training batch.
        path_gradient: Whether the score of the flow is left out of the gradient of the pre-training (sticking the
            landing).
        warmup: Number of gradient steps of the pre-training over which the learning rate rises to its peak.
        weight_decay: Weight decay of Adam in the pre-training.
        max_gradient_norm: Gradients of the pre-training with a larger norm are clipped to this norm.
        buffer_size: Number of points drawn for a fit.
        resampled_to: Number of points of equal weight that a buffer is resampled to.
        gradient_steps: Number of gradient steps per fit.
        batch_size: Number of points per gradient step of a fit.
        learning_rate: Initial learning rate of each fit.
        schedule: Learning rate schedule within a fit.
        fit_gradient_norm: Gradients of a fit with a larger norm are clipped to this norm.
        clip: Fraction of a buffer with the largest weights; these are clipped to the smallest among them.

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
            "buffer_size": (2.0, math.inf),
            "resampled_to": (1.0, math.inf),
            "clip": (0.0, 0.5),
        }
        check(self, ranges=ranges, positive=["pretrain_rate", "fit_gradient_norm"])
        if math.isinf(self.hot):
            raise InputError("hot: expected a finite temperature, got inf")

    @property
    def fits(self) -> int:
        """Number of fits of the whole ladder."""
        return (self.rungs - 1) * self.repeats + self.final

    @property
    def pretraining(self) -> OptimiserConfig:
        """Settings of the optimiser of the pre-training."""
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
        """Settings of the optimiser of the fits."""
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
        """Settings of a fit; resampled points repeat, so none can be held out to judge it."""
        return FitConfig(
            gradient_steps=self.gradient_steps,
            batch_size=self.batch_size,
            hold_out=0.0,
            learned=0.0,
            check_every=self.gradient_steps,
        )


def temperatures(config: TABGConfig) -> tuple[float, ...]:
    """Temperatures of the pre-training and of every fit after it, in units of the target's.

    Example:
        >>> temperatures(TABGConfig(hot=4.0, rungs=2, repeats=2, final=1))
        (4.0, 2.0, 2.0, 1.0)
    """
    between = [config.hot ** (1.0 - rung / config.rungs) for rung in range(1, config.rungs)]
    return (config.hot, *(value for value in between for _ in range(config.repeats)), *([1.0] * config.final))


def evaluations(config: TABGConfig) -> int:
    """Number of target evaluations: one for every point of the pre-training and of the buffers."""
    pretraining = config.pretrain_steps * config.pretrain_gradient_steps * config.pretrain_batch
    return pretraining + config.fits * config.buffer_size


def within_budget(config: TABGConfig, budget: float) -> TABGConfig:
    """Scale the settings so that they evaluate the target at most `budget` times.

    The ladder is kept. If the budget is smaller than the settings need, pre-training and buffers shrink by the same
    factor; if it is larger, the buffers grow. A fit makes at most ten passes over its points, or as many as with the
    original settings: the paper's make 30.

    Raises:
        InputError: The budget is too small for ten batches in each buffer.
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
