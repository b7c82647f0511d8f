"""Settings of the few constrained steps that take a trained flow to another target."""

import math
from dataclasses import replace

from boltzport.core.errors import InputError
from boltzport.training.methods import CMTConfig
from boltzport.training.methods.cmt import within_budget

STEPS = 20
"""Largest number of annealing steps; they end at the target, usually after one to four."""
REFINE = 4
"""Number of refining steps at the target."""
PLANNED = 3
"""Number of annealing steps that a budget is divided for, in addition to the refining ones."""
LEAST = 2000
"""Smallest number of evaluations per step."""
PASSES = 20
"""Largest number of passes over the buffer in one fit; the fit stops earlier if it no longer improves."""
BUFFER, STIFF = 0.6, 0.25
"""Fractions of a step's evaluations that are drawn, and that train the stiff half; the rest measures the halves."""


def from_trained(
    config: CMTConfig, *, budget: float = math.inf, spent: int = 0, differentiable: bool = True
) -> CMTConfig:
    """Settings of a training that starts from a trained flow.

    The flow is already good, so that the learning rates are those of the refinement from the first step on.

    Args:
        config: Settings of a training of the same flow from the start.
        budget: Maximum number of evaluations.
        spent: Number of these that were made before the steps.
        differentiable: Whether the target has a gradient.

    Raises:
        InputError: The budget is too small for a few steps.
    """
    if not config.apart:
        refine = min(config.refine, REFINE) if differentiable and isinstance(config.refine, int) else 0
        few = replace(config, steps=STEPS, arrive=True, refine=refine, anchors=0, patience=0)
        return few if math.isinf(budget) else within_budget(few, budget)
    few = replace(
        config,
        steps=STEPS,
        arrive=True,
        refine=REFINE,
        renew=0,
        chains=0,
        learning_rate=config.refine_rate,
        stiff_rate=config.refine_stiff_rate or config.stiff_rate,
        warmup=min(config.warmup, config.gradient_steps // 4),
        budget=budget,
    )
    if math.isinf(budget):
        return few
    share = (budget - spent) / (PLANNED + REFINE)
    if share < LEAST:
        least, left = LEAST * (PLANNED + REFINE), budget - spent
        raise InputError(f"budget: expected at least {least} evaluations for constrained steps, got {left:g}")
    buffer = int(min(few.buffer_size, BUFFER * share))
    refine_buffer = int(min(few.refine_buffer, BUFFER * share / (1 + few.broader)))
    batch, refine_batch = min(few.batch_size, buffer // 8), min(few.refine_batch, refine_buffer // 8)
    points = STIFF * share
    stiff_batch = int(min(few.stiff_batch, max(50.0, points / 20)))
    stiff_steps = int(min(few.stiff_steps, points // stiff_batch))
    refine_stiff_batch = int(min(few.refine_stiff_batch, max(50.0, points / 20)))
    return replace(
        few,
        buffer_size=buffer,
        batch_size=batch,
        gradient_steps=min(few.gradient_steps, PASSES * buffer // batch),
        stiff_batch=stiff_batch,
        stiff_steps=stiff_steps,
        refine_buffer=refine_buffer,
        refine_batch=refine_batch,
        refine_steps=min(few.refine_steps, PASSES * refine_buffer // refine_batch),
        refine_stiff_batch=refine_stiff_batch,
        refine_stiff_steps=int(min(few.refine_stiff_steps, points // refine_stiff_batch)),
    )
