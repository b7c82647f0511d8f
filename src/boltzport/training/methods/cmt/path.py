"""The annealing path: weights of the next density, and its position on the path."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.weights import effective_fraction

LEFT = 0.02
"""Exponent of the initial density below which the path has reached the target."""
WARMER = 0.1
"""Largest deviation from one of the inverse temperature at the end of the path."""
LAST = 0.6
"""Multiplier of the trust region at which the path has usually reached the target."""
TYPICAL_FALL = 0.6
"""Typical decrease, per step, of the logarithm of a molecule's multiplier."""
OVERLAP = 0.01
"""Smallest ESS fraction at which samples of a flow represent the density on the path."""


class Multipliers(NamedTuple):
    """Lagrange multipliers of the two constraints; zero where a constraint is inactive.

    Attributes:
        trust_region: lambda in the paper.
        entropy: eta in the paper.
    """

    trust_region: float
    entropy: float


def log_weights(
    log_q: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"], multipliers: Multipliers
) -> Float[Tensor, " batch"]:
    """Log of q_{i+1} / q_i up to a constant: (log p - (1 + eta) log q_i) / (1 + lambda + eta).

    Both the solver of the dual and the fit of the flow use these weights.

    Args:
        log_q: Log density of q_i with respect to the target's measure.
        log_p: Log of the unnormalised target with respect to the same measure.
        multipliers: Solution of the dual.
    """
    trust_region, entropy = multipliers
    return (log_p - (1.0 + entropy) * log_q) / (1.0 + trust_region + entropy)


@dataclass(frozen=True, kw_only=True)
class PathPoint:
    """A density on the path: q_i is proportional to q_0^(1 - beta) (p^alpha)^beta.

    Attributes:
        alpha: Inverse temperature, in units of the target's.
        beta: Position on the path, from 0 at the initial density to 1.
    """

    alpha: float = 0.0
    beta: float = 0.0

    def log_density(
        self, log_initial: Float[Tensor, " batch"], log_p: Float[Tensor, " batch"]
    ) -> Float[Tensor, " batch"]:
        """Log of the unnormalised density.

        Args:
            log_initial: Log density of q_0.
            log_p: Log of the unnormalised target.
        """
        return (1.0 - self.beta) * log_initial + self.power * log_p

    @property
    def power(self) -> float:
        """Exponent of the target, alpha beta."""
        return self.alpha * self.beta

    @property
    def arrived(self) -> bool:
        """Whether the initial density is almost gone and the temperature is close to the target's."""
        return 1.0 - self.beta < LEFT and 1.0 - self.alpha < WARMER

    def after(self, multipliers: Multipliers) -> "PathPoint":
        """The next density, by the recursion in the proof of the theorem on annealing paths.

        1 - beta shrinks by lambda / (1 + lambda + eta), and so does alpha beta, which then gains
        1 / (1 + lambda + eta).
        """
        trust_region, entropy = multipliers
        total = 1.0 + trust_region + entropy
        beta = 1.0 - (1.0 - self.beta) * trust_region / total
        power = self.power * trust_region / total + 1.0 / total
        return PathPoint(alpha=power / beta if beta > 0.0 else 0.0, beta=beta)


def log_z_ratio(
    log_q: Float[Tensor, " batch"], log_here: Float[Tensor, " batch"], log_there: Float[Tensor, " batch"]
) -> float:
    """Log ratio of the normalising constants of two densities, from samples of a third.

    Summed along the path from q_0, these log ratios give the target's constant. The sum includes the mass of a mode
    that the flow has lost since, as far as the flow still covered it at that point of the path.

    Args:
        log_q: Log density of the flow that drew the points.
        log_here: Log of the unnormalised density on the path that the flow approximates.
        log_there: The same for the next one.

    Returns:
        The log ratio; NaN if the flow is too far from the path to estimate it.
    """
    if effective_fraction(log_here - log_q) < OVERLAP:
        return math.nan
    return float(torch.logsumexp(log_there - log_q, 0) - torch.logsumexp(log_here - log_q, 0))


def steps_to_target(multipliers: Sequence[float]) -> int:
    """Steps until the path reaches the target, estimated from the steady fall of the trust region's log multiplier.

    Example:
        >>> steps_to_target([100.0, 10.0]), steps_to_target([100.0]), steps_to_target([1.0, 0.5, 0.0])
        (2, 9, 0)
    """
    now = multipliers[-1] if multipliers else 1e3
    if now <= 0.0:
        return 0
    logs = [math.log(max(value, LAST)) for value in multipliers if value > 0.0]
    fall = (logs[0] - logs[-1]) / (len(logs) - 1) if len(logs) > 1 else TYPICAL_FALL
    return max(1, math.ceil((math.log(max(now, LAST)) - math.log(LAST)) / max(fall, TYPICAL_FALL / 4)))
