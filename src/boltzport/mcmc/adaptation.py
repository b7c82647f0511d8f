"""Step sizes for several groups of chains at once: by dual averaging, or by following a density that moves.

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
"""Change of the log of a step size that follows, for an acceptance that is off by one."""


class DualAveraging(NamedTuple):
    """Step sizes that move towards a wanted acceptance.

    Attributes:
        log_step: Log of the step size to try next, for each group.
        log_average: Log of the average step size, which is what is used after warm-up.
        error: Average of wanted minus found acceptance.
        centre: Log of the step size that the search is drawn to: ten times the first.
        updates: Updates so far.
    """

    log_step: Float[Tensor, " groups"]
    log_average: Float[Tensor, " groups"]
    error: Float[Tensor, " groups"]
    centre: Float[Tensor, " groups"]
    updates: int


def init_dual_averaging(step_size: Float[Tensor, " groups"]) -> DualAveraging:
    """Start from given step sizes."""
    log_step = step_size.log()
    return DualAveraging(log_step, log_step, torch.zeros_like(log_step), log_step + torch.tensor(10.0).log(), 0)


def update_dual_averaging(
    state: DualAveraging, acceptance: Float[Tensor, " groups"], *, wanted: float
) -> DualAveraging:
    """Learn from the mean acceptance of each group."""
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
    """The next step sizes where the density changes for ever: there is no average to settle on.

    Args:
        step_sizes: Those that were used.
        acceptance: Mean acceptance that they had.
        wanted: Mean acceptance that they should have.
    """
    return step_sizes * (GAIN * (acceptance - wanted)).exp()
