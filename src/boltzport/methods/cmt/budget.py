"""Plans: an entropy bound from the steps that are left, and settings from a number of evaluations."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.errors import InputError
from boltzport.methods.cmt.config import CMTConfig
from boltzport.weights import effective_fraction, normalised

OVERLAP = 0.1
"""Least effective fraction with which a tempered density is looked at."""
LEAST_BOUND = 0.02
"""Least entropy bound, nats: the annealing never stands still."""
TYPICAL_STEPS = 10
"""Annealing steps of a small peptide."""
PASSES = 10
"""How often a point may serve in a fit before the fit learns the point instead of the density."""


def entropy_bound(log_q: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"], *, steps_left: int) -> float:
    """Entropy bound with which the entropy reaches the target's in the steps that are left.

    Args:
        log_q: Log density of q_i at points of q_i.
        log_p: Log of the unnormalised target there.
        steps_left: Steps until the entropy is to be the target's.
    """
    entropy = -float(log_q.mean())
    return max(LEAST_BOUND, (entropy - target_entropy(log_q, log_p)) / max(steps_left, 1))


def target_entropy(log_q: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"]) -> float:
    """Entropy of the target, as far as points of another density tell.

    They are reweighted to the coldest tempered target p^a that they overlap with; from there it is a step down in
    temperature with a constant heat capacity, dH = C dlog T with C = a^2 Var(log p), which is exact for a Gaussian.
    """
    power = _coldest(log_q, log_p)
    weights = normalised(power * log_p - log_q)
    log_z = torch.logsumexp(power * log_p - log_q, 0) - math.log(len(log_q))
    mean = (weights * log_p).sum()
    entropy = float(log_z - power * mean)
    capacity = power**2 * float((weights * (log_p - mean) ** 2).sum())
    return entropy + capacity * math.log(power)


def _coldest(log_q: Tensor, log_p: Tensor) -> float:
    """The largest power a <= 1 of the target to which points can be reweighted.

    Powers are tried from 1 downwards, since the overlap is not monotonic: towards 0 the tempered target is uniform.
    Where there is no overlap anywhere, it is the power with the most of it.
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
    """Settings that evaluate the target no more than `budget` times.

    Where halves are learned apart, a training ends when its next step would exceed the budget. Half of it is meant for
    the annealing: where a typical one would need more, its steps are made smaller, and those after it as well.

    The number of steps stays as it is as long as their buffers hold ten batches; then there are fewer steps. A fit goes
    over its buffer no more than ten times. Where there is a refinement, its anchors have a tenth of the budget at most,
    the buffers what the settings have for them or half of the rest, and refining steps what is left. The warm-up is a
    tenth of the gradient steps at most.

    Raises:
        InputError: Not even one step fits.
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
