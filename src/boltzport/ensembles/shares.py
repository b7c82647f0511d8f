"""Shares of the members of a mixture: those with the least chi-square of the weights, and never zero."""

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.weights import normalised
from boltzport.flows import MixedFlow, draw
from boltzport.targets import CountedTarget, Purpose

PILOT = 4096
"""Number of pilot samples."""
SMALLEST = 0.1
"""Smallest share of a member, in units of an equal share: a pilot may miss what only this member samples."""
ROUNDS = 2000


def optimal_shares(
    log_members: Float[Tensor, "points members"],
    log_p: Float[Tensor, " points"],
    log_drawn: Float[Tensor, " points"],
    *,
    smallest: float = SMALLEST,
) -> Float[Tensor, " members"]:
    """Shares a that minimise the integral of p^2 / sum_k a_k q_k, a convex function, with a lower bound.

    The gradient with respect to a_k is -E_p[p q_k / q^2]. The iteration a_k <- a_k sqrt(gradient), normalised, descends
    to where all gradients are equal, except of members at their bound, whose gradient is smaller.

    Args:
        log_members: Log density of each member at some points.
        log_p: Log density of the target there, up to a constant; minus infinity where it is zero.
        log_drawn: Log density that the points are drawn from.
        smallest: Lower bound, in units of an equal share.
    """
    members = log_members.shape[1]
    # E_p[p q_k / q^2] = E_drawn[(p / drawn)^2 (drawn / q)^2 q_k / drawn], with every factor near one.
    squares = normalised(2.0 * torch.where(log_p.isfinite(), log_p - log_drawn, -torch.inf))
    ratios = (log_members - log_drawn[:, None]).exp()
    floor = smallest / members
    free = torch.full((members,), 1.0 / members, dtype=torch.float64)
    for _ in range(ROUNDS):
        shares = floor + (1.0 - smallest) * free
        gradient = (squares[:, None] * ratios / (ratios @ shares)[:, None] ** 2).sum(0)
        free = free * gradient.sqrt()
        free = free / free.sum()
    return floor + (1.0 - smallest) * free


@torch.no_grad()
def with_optimal_shares(
    flow: MixedFlow, target: CountedTarget, *, generator: torch.Generator, n: int = PILOT
) -> MixedFlow:
    """The mixture with the best shares for a target, by a pilot sample that is not used otherwise.

    Args:
        flow: The mixture.
        target: The target; its ledger counts the pilot's evaluations.
        generator: Random generator of the pilot.
        n: Number of pilot samples.
    """
    (drawn,) = draw(flow, target, n, batch=n, generator=generator, purpose=Purpose.EVALUATION)
    log_p = drawn.log_p + drawn.log_volume
    if not bool(drawn.log_weights.isfinite().any()):
        return flow
    shares = optimal_shares(flow.log_probs(drawn.coordinates), log_p, drawn.log_q.double())
    # Rounding: they must sum to one.
    return flow.with_shares((shares / shares.sum()).tolist())
