"""Importance weights, as logarithms in float64."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

NEGLIGIBLE = 1e-12
"""Weights below this are set to zero, in units of the mean."""
CLIPPED = 1e-4
"""Fraction of the points whose weights are clipped in the effective sample size, as in the paper."""


class LogMean(NamedTuple):
    """Log of the mean of weights, and the standard error of that logarithm."""

    value: float
    error: float


class Reweighting(NamedTuple):
    """Metrics of a flow from the log-weights of its points with respect to the target.

    Attributes:
        ess: Effective sample size as a fraction, with the largest weights clipped, since single points can hide the
            quality of the flow.
        ess_unclipped: The same without clipping.
        log_z: Log of the target's normalising constant.
        elbo: Mean log-weight of the points with a finite one, the lowest clamped.
        failed: Number of points without a finite log-weight.
    """

    ess: float
    ess_unclipped: float
    log_z: LogMean
    elbo: float
    failed: int


class HalvedEss(NamedTuple):
    """Effective sample sizes of the two halves of a flow, as fractions.

    Attributes:
        torsions: That of the marginal density of the torsions.
        stiff: That of the stiff coordinates given the torsions, averaged over the target's torsions.
    """

    torsions: float
    stiff: float


def normalised(log_weights: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Weights that sum to one."""
    return torch.softmax(log_weights.double(), 0)


def without_negligible(weights: Float[Tensor, " batch"], *, mean: float) -> Float[Tensor, " batch"]:
    """Weights of the points of a loss, with negligible ones set to zero.

    Their gradients would be subnormal numbers, which a processor multiplies up to a hundred times slower.

    Args:
        weights: Weights, which may be negative.
        mean: Mean of the weights, or an estimate of it.

    Example:
        >>> without_negligible(torch.tensor([1e-30, 3.0, -0.5, 1e-13]), mean=1.0)
        tensor([ 0.0000,  3.0000, -0.5000,  0.0000])
    """
    return torch.where(weights.abs() < NEGLIGIBLE * mean, 0.0, weights)


def log_mean(log_weights: Float[Tensor, " batch"]) -> LogMean:
    """Log of the mean weight, which is log Z for an unnormalised density.

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
    """Log-weights with the largest ones set to the smallest of these.

    Args:
        log_weights: Log-weights.
        fraction: Fraction of the points to clip; nothing changes if it is fewer than two points.

    Example:
        >>> clipped(torch.tensor([0.0, 5.0, 1.0, 9.0]), 0.5).tolist()
        [0.0, 5.0, 1.0, 5.0]
    """
    count = int(fraction * len(log_weights))
    if count < 2:
        return log_weights
    return log_weights.clamp_max(float(log_weights.topk(count).values[-1]))


def clamped(log_weights: Float[Tensor, " batch"], fraction: float) -> Float[Tensor, " batch"]:
    """Log-weights with the lowest ones set to the highest of these, as in the paper's ELBO.

    Args:
        log_weights: Log-weights.
        fraction: Fraction of the points to clamp; nothing changes if it is fewer than two points.

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
    """Effective sample sizes of the two halves of a flow, from several stiff points for each sample of the torsions.

    With few points for each, the marginal weights of the torsions contain some noise of the stiff half, and the
    fraction of the stiff half is slightly too high.

    Example:
        >>> effective_halves(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]).double())
        HalvedEss(torsions=0.9, stiff=0.8333333333333334)
    """
    padded = torch.where(log_weights.isfinite(), log_weights.double(), -math.inf)
    weights = (padded - padded.max()).exp()
    mean = weights.mean(1)
    within = mean**2 / (weights**2).mean(1).clamp_min(1e-300)
    return HalvedEss(float(mean.mean() ** 2 / (mean**2).mean()), float((mean * within).sum() / mean.sum()))
