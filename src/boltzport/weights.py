"""Importance weights by their logarithms, in float64."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

NEGLIGIBLE = 1e-12
"""Of a weight, in units of the mean."""
CLIPPED = 1e-4
"""Part of the points whose weights are clipped where an effective size judges a flow, as in the paper."""


class LogMean(NamedTuple):
    """Log of the mean of weights, and the standard error of that logarithm."""

    value: float
    error: float


class Reweighting(NamedTuple):
    """What the log-weights of a flow's points to its target say of the flow.

    Attributes:
        ess: Effective fraction of the points with the largest weights clipped: single points hide how the flow does.
        ess_unclipped: The same without.
        log_z: Log of the target's normalising constant.
        elbo: Mean log-weight of the points that have a finite one, the lowest set to the highest of them.
        failed: Points that have none.
    """

    ess: float
    ess_unclipped: float
    log_z: LogMean
    elbo: float
    failed: int


class HalvedEss(NamedTuple):
    """Effective fractions of the two halves of a flow.

    Attributes:
        torsions: Of the torsions' marginal density.
        stiff: Of the stiff coordinates given the torsions, averaged over the target's torsions.
    """

    torsions: float
    stiff: float


def normalised(log_weights: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Weights that add up to one."""
    return torch.softmax(log_weights.double(), 0)


def without_negligible(weights: Float[Tensor, " batch"], *, mean: float) -> Float[Tensor, " batch"]:
    """Weights of the points of a loss, those too small to matter set to zero.

    Their gradients would be subnormal numbers, which a processor multiplies up to a hundred times slower.

    Args:
        weights: Any, also negative ones.
        mean: Their mean, as far as it is known.

    Example:
        >>> without_negligible(torch.tensor([1e-30, 3.0, -0.5, 1e-13]), mean=1.0)
        tensor([ 0.0000,  3.0000, -0.5000,  0.0000])
    """
    return torch.where(weights.abs() < NEGLIGIBLE * mean, 0.0, weights)


def log_mean(log_weights: Float[Tensor, " batch"]) -> LogMean:
    """Log of the mean weight: log Z, where the weights are of an unnormalised density.

    Example:
        >>> round(log_mean(torch.tensor([1.0, 3.0]).log()).value, 6) == round(math.log(2.0), 6)
        True
    """
    count = len(log_weights)
    value = float(torch.logsumexp(log_weights.double(), 0)) - math.log(count)
    spread = 1.0 / effective_fraction(log_weights) - 1.0
    return LogMean(value, math.sqrt(max(spread, 0.0) / count))


def effective_fraction(log_weights: Float[Tensor, " batch"]) -> float:
    """Effective sample size over the number of samples: (mean w)^2 / mean(w^2).

    The paper's formula lacks the square.

    Example:
        >>> effective_fraction(torch.tensor([0.0, -torch.inf]))
        0.5
    """
    weights = normalised(log_weights)
    return float(1.0 / (len(weights) * (weights * weights).sum()))


def clipped(log_weights: Float[Tensor, " batch"], fraction: float) -> Float[Tensor, " batch"]:
    """Log-weights with the largest set to the smallest of them.

    Args:
        log_weights: Any.
        fraction: Part of the points that counts as the largest; of a single one nothing changes.

    Example:
        >>> clipped(torch.tensor([0.0, 5.0, 1.0, 9.0]), 0.5).tolist()
        [0.0, 5.0, 1.0, 5.0]
    """
    count = int(fraction * len(log_weights))
    if count < 2:
        return log_weights
    return log_weights.clamp_max(float(log_weights.topk(count).values[-1]))


def clamped(log_weights: Float[Tensor, " batch"], fraction: float) -> Float[Tensor, " batch"]:
    """Log-weights with the lowest set to the highest of them, as in the paper's ELBO.

    Args:
        log_weights: Any.
        fraction: Part of the points that counts as the lowest; of a single one nothing changes.

    Example:
        >>> clamped(torch.tensor([0.0, 5.0, 1.0, 9.0]), 0.5).tolist()
        [1.0, 5.0, 1.0, 9.0]
    """
    return -clipped(-log_weights, fraction)


def reweighting(log_weights: Float[Tensor, " batch"]) -> Reweighting:
    """Metrics of a flow from the log-weights of its points; a point whose density is not finite has weight zero.

    Example:
        >>> found = reweighting(torch.tensor([0.0, torch.nan]))
        >>> found.ess, found.elbo, found.failed
        (0.5, 0.0, 1)
    """
    good = log_weights.isfinite()
    padded = torch.where(good, log_weights.double(), -math.inf)
    return Reweighting(
        ess=effective_fraction(clipped(padded, CLIPPED)),
        ess_unclipped=effective_fraction(padded),
        log_z=log_mean(padded),
        elbo=float(clamped(log_weights[good].double(), CLIPPED).mean()),
        failed=int((~good).sum()),
    )


def effective_halves(log_weights: Float[Tensor, "torsions each"]) -> HalvedEss:
    """Effective fractions of the two halves of a flow, from several stiff points for each of its torsions.

    With few points for each, the marginal weights of the torsions keep some noise of the stiff half, and its own
    fraction is a little too high.

    Example:
        >>> effective_halves(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]).double())
        HalvedEss(torsions=0.9, stiff=0.8333333333333334)
    """
    padded = torch.where(log_weights.isfinite(), log_weights.double(), -math.inf)
    weights = (padded - padded.max()).exp()
    mean = weights.mean(1)
    within = mean**2 / (weights**2).mean(1).clamp_min(1e-300)
    return HalvedEss(float(mean.mean() ** 2 / (mean**2).mean()), float((mean * within).sum() / mean.sum()))
