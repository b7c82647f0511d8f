"""The dual problem: multipliers with which the next density satisfies the bounds on divergence and entropy.

    g(lambda, eta) = -(1 + lambda + eta) log Z(lambda, eta) - lambda eps_tr + eta (H(q_i) - eps_ent)

The sign of the last term follows from the derivation (the paper's main text prints a minus). The derivatives are the
constraints: dg/dlambda = KL(q_{i+1} || q_i) - eps_tr and dg/deta = H(q_i) - H(q_{i+1}) - eps_ent.

g is concave. So dg/dlambda decreases with lambda at every eta, and with the optimal lambda for each eta, dg/deta
decreases with eta. Two nested root searches in log(1 + multiplier) are therefore robust for multipliers from zero up to
1e8, with which a clashing molecule starts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.training.methods.cmt.path import Multipliers, log_weights

LARGEST = math.log(1e20)
"""Largest log(1 + multiplier) in the search."""
PRECISION = 1e-10
"""Tolerance of log(1 + multiplier)."""


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds of the two constraints, in nats; infinite for no constraint.

    Attributes:
        trust_region: Largest KL(q_{i+1} || q_i), eps_tr in the paper.
        entropy: Largest H(q_i) - H(q_{i+1}), eps_ent in the paper.
    """

    trust_region: float = math.inf
    entropy: float = math.inf

    def __post_init__(self) -> None:
        if not (self.trust_region > 0.0 and self.entropy > 0.0):
            raise InputError(f"expected bounds above 0, got {self.trust_region} and {self.entropy}")


class Status(StrEnum):
    """Status of a solution."""

    SOLVED = "solved"
    INACTIVE = "inactive"
    INFEASIBLE = "infeasible"


class Change(NamedTuple):
    """Change from the current density to the next one.

    Attributes:
        divergence: KL(q_{i+1} || q_i).
        entropy_loss: H(q_i) - H(q_{i+1}).
        log_z: Log of the normalising constant of the next density.
    """

    divergence: float
    entropy_loss: float
    log_z: float


class Solution(NamedTuple):
    """Solution of the dual."""

    multipliers: Multipliers
    change: Change
    status: Status
    message: str


def change(
    log_q: Float[Tensor, " batch"],
    log_p: Float[Tensor, " batch"],
    multipliers: Multipliers,
    log_base: Float[Tensor, " batch"] | None = None,
) -> Change:
    """Estimate the divergence and the loss of entropy of the next density by importance sampling.

    Args:
        log_q: Log density of q_i at the points of a buffer.
        log_p: Log of the unnormalised target there.
        multipliers: Multipliers, not necessarily optimal.
        log_base: Log-weights of the points with respect to q_i; equal by default.
    """
    base = torch.zeros_like(log_q) if log_base is None else log_base
    base = base - torch.logsumexp(base, 0)
    log_ratio = log_weights(log_q, log_p, multipliers)
    log_z = torch.logsumexp(base + log_ratio, 0)
    log_ratio = log_ratio - log_z
    weights = (base + log_ratio).exp()
    entropy_now = -(base.exp() * log_q).sum()
    entropy_next = -(weights * (log_q + log_ratio)).sum()
    return Change(float((weights * log_ratio).sum()), float(entropy_now - entropy_next), float(log_z))


def solve(
    log_q: Float[Tensor, " batch"],
    log_p: Float[Tensor, " batch"],
    bounds: Bounds,
    *,
    log_base: Float[Tensor, " batch"] | None = None,
) -> Solution:
    """Find the multipliers that maximise the dual; exactly zero where a constraint is inactive.

    Args:
        log_q: Log density of q_i at the points of a buffer, finite.
        log_p: Log of the unnormalised target there, finite.
        bounds: Bounds of the constraints.
        log_base: Log-weights of the points with respect to q_i; equal by default.

    Raises:
        RunError: A log density is not finite; the caller must remove such points from the buffer.
    """
    log_q, log_p = log_q.double(), log_p.double()
    base = None if log_base is None else log_base.double()
    if not len(log_q) or not bool(log_q.isfinite().all() and log_p.isfinite().all()):
        raise RunError("the dual needs finite log densities; points that failed must be removed from the buffer first")

    def change_at(trust_region: float, entropy: float) -> Change:
        return change(log_q, log_p, Multipliers(trust_region, entropy), base)

    def trust_region_at(entropy: float) -> float:
        if math.isinf(bounds.trust_region):
            return 0.0
        return _zero(lambda value: change_at(value, entropy).divergence - bounds.trust_region)

    def entropy_excess(entropy: float) -> float:
        return change_at(trust_region_at(entropy), entropy).entropy_loss - bounds.entropy

    entropy = 0.0 if math.isinf(bounds.entropy) else _zero(entropy_excess)
    found = Multipliers(trust_region_at(entropy), entropy)
    reached = change_at(*found)
    return _judged(found, reached, bounds)


def _zero(excess: Callable[[float], float]) -> float:
    """Root of a decreasing function of a multiplier; 0 if it is negative at zero."""
    if excess(0.0) <= 0.0:
        return 0.0
    lower, upper = 0.0, 1.0
    while excess(math.expm1(upper)) > 0.0:
        lower, upper = upper, 2.0 * upper
        if upper > LARGEST:
            return math.expm1(LARGEST)
    return math.expm1(brentq(lambda value: excess(math.expm1(value)), lower, upper, xtol=PRECISION))


def _judged(found: Multipliers, reached: Change, bounds: Bounds) -> Solution:
    slack = 1e-3
    if reached.divergence > bounds.trust_region * (1 + slack) or reached.entropy_loss > bounds.entropy + slack:
        message = (
            f"no multiplier satisfies the bounds: divergence {reached.divergence:.3g} of {bounds.trust_region:.3g}, "
            f"loss of entropy {reached.entropy_loss:.3g} of {bounds.entropy:.3g}"
        )
        return Solution(found, reached, Status.INFEASIBLE, message)
    if found == (0.0, 0.0):
        return Solution(found, reached, Status.INACTIVE, "the target is within the bounds")
    return Solution(found, reached, Status.SOLVED, f"divergence {reached.divergence:.3g}, " + _acting(found))


def _acting(found: Multipliers) -> str:
    acting = [name for name, value in (("trust region", found.trust_region), ("entropy", found.entropy)) if value > 0]
    return " and ".join(acting) + (" act" if len(acting) > 1 else " acts")
