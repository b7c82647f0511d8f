"""Budgets: an entropy bound from the remaining steps, and settings from a number of evaluations."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.weights import effective_fraction, normalised
from boltzport.training.methods.cmt.config import CMTConfig

OVERLAP = 0.1
"""Smallest ESS fraction at which points are reweighted to a tempered density."""
LEAST_BOUND = 0.02
"""Smallest entropy bound, in nats, so that the annealing always advances."""
TYPICAL_STEPS = 10
"""Typical number of annealing steps of a small peptide."""
PASSES = 10
"""Largest number of passes over a buffer in one fit; more lead to overfitting."""


def entropy_bound(log_q: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"], *, steps_left: int) -> float:
    """Entropy bound with which the flow's entropy reaches the target's in the remaining steps.

    Args:
        log_q: Log density of q_i at samples of q_i.
        log_p: Log of the unnormalised target there.
        steps_left: Number of steps after which the entropy should equal the target's.
    """
    entropy = -float(log_q.mean())
    return max(LEAST_BOUND, (entropy - target_entropy(log_q, log_p)) / max(steps_left, 1))


def target_entropy(log_q: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"]) -> float:
    """Estimate the entropy of the target from samples of another density.

    The samples are reweighted to the coldest tempered target p^a that they overlap with. From there the entropy is
    extrapolated with a constant heat capacity, dH = C dlog T with C = a^2 Var(log p), which is exact for a Gaussian.
    """
    power = _coldest(log_q, log_p)
    weights = normalised(power * log_p - log_q)
    log_z = torch.logsumexp(power * log_p - log_q, 0) - math.log(len(log_q))
    mean = (weights * log_p).sum()
    entropy = float(log_z - power * mean)
    capacity = power**2 * float((weights * (log_p - mean) ** 2).sum())
    return entropy + capacity * math.log(power)


def _coldest(log_q: Tensor, log_p: Tensor) -> float:
    """Largest power a <= 1 of the target to which the points can be reweighted.

    Powers are tried from 1 downwards, since the overlap is not monotonic: towards 0 the tempered target is uniform.
    If no power has enough overlap, the one with the most is returned.
    """
    best, most = 1.0, 0.0
    for exponent in range(81):
        power = math.pow(10.0, -exponent / 8)
        overlap = effective_fraction(power * log_p - log_q)
        if overlap >= OVERLAP:
            return power
        if overlap > most:
            best, most = power, overlap
    return best


def within_budget(config: CMTConfig, budget: float) -> CMTConfig:
    """Scale the settings so that they evaluate the target at most `budget` times.

    If the halves are trained separately, the training ends when its next step would exceed the budget. Half of the
    budget is reserved for the annealing: if a typical annealing needs more, all steps are made smaller.

    Otherwise the number of steps is kept while each buffer holds ten batches, and reduced below that. A fit makes at
    most ten passes over its buffer. With a refinement, the anchors get at most a tenth of the budget, the buffers get
    what the settings give them or half of the remainder, and the refining steps get the rest. The warm-up is at most a
    tenth of the gradient steps.

    Raises:
        InputError: The budget is too small for a single step.
    """
    least = 10 * config.batch_size
    if budget < least:
        raise InputError(f"budget: expected at least {least} evaluations (ten batches), got {budget:g}")
    if config.apart:
        return _halves_within(config, budget)
    refining = config.gradient_steps * config.refine_batch
    anchors = min(config.anchors, int(budget // 10)) if config.refine else 0
    annealing = min(config.steps * config.buffer_size, (budget - anchors) / 2)
    refine = int((budget - anchors - annealing) // refining) if config.refine else 0
    anchors = anchors if refine else 0
    left = budget - refine * refining - anchors
    steps = max(1, min(config.steps, int(left // least)))
    buffer_size = int(left // steps)
    gradient_steps = min(config.gradient_steps, PASSES * buffer_size // config.batch_size)
    return replace(
        config,
        steps=steps,
        buffer_size=buffer_size,
        gradient_steps=gradient_steps,
        warmup=min(config.warmup, steps * gradient_steps // 10),
        refine=refine,
        anchors=anchors,
    )


def _halves_within(config: CMTConfig, budget: float) -> CMTConfig:
    factor = min(1.0, budget / 2 / (TYPICAL_STEPS * config.step_evaluations(refining=False)))

    def part(value: int, least: int) -> int:
        return max(min(value, least), int(factor * value))

    return replace(
        config,
        budget=budget,
        buffer_size=part(config.buffer_size, 2 * config.batch_size),
        stiff_steps=part(config.stiff_steps, 5),
        gradient_steps=part(config.gradient_steps, 10),
        refine_buffer=part(config.refine_buffer, 2 * config.refine_batch),
        refine_stiff_steps=part(config.refine_stiff_steps, 5),
        refine_steps=part(config.refine_steps, 10),
        chains=int(factor * config.chains),
    )
