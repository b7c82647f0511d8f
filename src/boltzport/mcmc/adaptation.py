"""Step size adaptation for several groups of chains: by dual averaging, or by following a density that changes.

M. D. Hoffman, A. Gelman, The No-U-Turn Sampler, JMLR 15 (2014), section 3.2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

SHRINKAGE = 0.05
DELAY = 10.0
FORGETTING = 0.75
GAIN = 0.3
"""Change of the log step size in `follow_acceptance` per unit error of the acceptance rate."""


class DualAveraging(NamedTuple):
    """State of dual averaging, which adapts step sizes to a target acceptance rate.

    Attributes:
        log_step: Log of the next step size of each group.
        log_average: Log of the average step size, which is used after the warm-up.
        error: Average of target minus observed acceptance rate.
        centre: Log of the step size that the iterates shrink towards: ten times the first.
        updates: Number of updates so far.
    """

    log_step: Float[Tensor, " groups"]
    log_average: Float[Tensor, " groups"]
    error: Float[Tensor, " groups"]
    centre: Float[Tensor, " groups"]
    updates: int


def init_dual_averaging(step_size: Float[Tensor, " groups"]) -> DualAveraging:
    """Start dual averaging from given step sizes."""
    log_step = step_size.log()
    return DualAveraging(
        log_step, log_step, torch.zeros_like(log_step), log_step + torch.tensor(10.0, device="cpu").log(), 0
    )


def update_dual_averaging(
    state: DualAveraging, acceptance: Float[Tensor, " groups"], *, wanted: float
) -> DualAveraging:
    """Update the step sizes with the mean acceptance rate of each group."""
    updates = state.updates + 1
    share = 1.0 / (updates + DELAY)
    error = (1.0 - share) * state.error + share * (wanted - acceptance)
    log_step = state.centre - updates**0.5 / SHRINKAGE * error
    weight = float(updates) ** -FORGETTING
    log_average = weight * log_step + (1.0 - weight) * state.log_average
    return DualAveraging(log_step, log_average, error, state.centre, updates)


def follow_acceptance(
    step_sizes: Float[Tensor, " groups"], acceptance: Float[Tensor, " groups"], *, wanted: float
) -> Float[Tensor, " groups"]:
    """Next step sizes for a density that keeps changing, so that there is no average to converge to.

    Args:
        step_sizes: Step sizes that were used.
        acceptance: Their mean acceptance rate.
        wanted: Target acceptance rate.
    """
    return step_sizes * (GAIN * (acceptance - wanted)).exp()
