"""The annealing path: weights of the next density, and where on the path it lies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.weights import effective_fraction

LEFT = 0.02
"""Exponent of the initial density under which a path has arrived."""
WARMER = 0.1
"""How far from one the inverse temperature of a path that has arrived may be."""
LAST = 0.6
"""Multiplier of the trust region at which it most often has."""
TYPICAL_FALL = 0.6
"""Of the logarithm of a molecule's multiplier in a step."""
OVERLAP = 0.01
"""Least effective fraction with which points of a flow speak for the density on the path."""


class Multipliers(NamedTuple):
    """Lagrangian multipliers of the two constraints; zero where a constraint does not act.

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

    The solver of the dual and the fit of the flow both take their weights from here.

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
        alpha: Inverse of the temperature, in units of the target's.
        beta: How far from the initial density.
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
        """Whether hardly anything of the initial density is left, and the temperature is nearly the target's."""
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
    """Log of the ratio of the normalising constants of two densities, by points of a third.

    Summed up along the path from q_0, these ratios are the constant of the target; and they remember the mass of a mode
    that a flow has lost on the way, as far as the flow still had it when the path went by.

    Args:
        log_q: Log density of the flow that drew the points.
        log_here: Log of the unnormalised density on the path that the flow stands for.
        log_there: The same for the next one.

    Returns:
        NaN where the flow has left the path too far to tell.
    """
    if effective_fraction(log_here - log_q) < OVERLAP:
        return math.nan
    return float(torch.logsumexp(log_there - log_q, 0) - torch.logsumexp(log_here - log_q, 0))


def steps_to_target(multipliers: Sequence[float]) -> int:
    """Steps until the path arrives, as far as the multipliers of the trust region tell, whose logarithm falls evenly.

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
