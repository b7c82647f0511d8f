"""Settings of FAB from a number of evaluations."""

from dataclasses import replace

from boltzport.core.errors import InputError
from boltzport.training.methods.fab.config import FABConfig

FILLING = 0.2
"""Largest fraction of the passes that fill the buffer."""


def evaluations(config: FABConfig) -> int:
    """Number of target evaluations of a training: one at the start of each chain and one per leapfrog step.

    Example:
        The paper's dipeptide: 2.13e8.

        >>> evaluations(FABConfig(steps=125, passes=50, gradient_steps=8, batch_size=1024, intermediate=8, leapfrog=4,
        ...                       buffer_min=64 * 1024, buffer_max=512 * 1024))
        213362688
    """
    return _of_a_pass(config) * (config.filling + config.steps * config.passes)


def within_budget(config: FABConfig, budget: float) -> FABConfig:
    """Scale the settings so that they evaluate the target at most `budget` times.

    The number of passes is the largest that fits, and the number of gradient steps follows it. With few passes, the
    initial filling of the buffer and the warm-up are shortened too.

    Raises:
        InputError: The budget is too small for a single pass.
    """
    each = _of_a_pass(config)
    passes = int(budget // each)
    if passes < 1:
        raise InputError(f"budget: expected at least {each} evaluations (one pass), got {budget:g}")
    filling = min(config.filling, int(FILLING * passes))
    steps = min(config.steps, passes - filling)
    each_step = (passes - filling) // steps
    return replace(
        config,
        steps=steps,
        passes=each_step,
        warmup=min(config.warmup, steps * each_step * config.gradient_steps // 10),
        buffer_min=min(config.buffer_min, filling * config.batch_size),
    )


def _of_a_pass(config: FABConfig) -> int:
    return config.batch_size * (1 + config.intermediate * config.leapfrog)
