"""Metrics of importance weights: log Z, effective sample size, bounds, and whether they can be trusted."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from boltzport.analysis.metrics.bootstrap import BLOCKS, Interval, draw_blocks, interval, sample_blocks
from boltzport.core.weights import CLIPPED, clamped, clipped

LARGEST_K = 0.7
"""Largest shape of the weights' tail for which they can be trusted (Vehtari et al. 2024)."""
FEWEST = 25
"""Smallest number of samples for a fit of the tail."""


class Smoothed(NamedTuple):
    """Pareto-smoothed log-weights, and the shape k-hat of their tail; None if all weights are equal or too few."""

    log_weights: Float[np.ndarray, " samples"]
    pareto_k: float | None


class Importance(NamedTuple):
    """Metrics of importance weights.

    Attributes:
        log_z: Log of the mean weight.
        log_z_error: Standard error of log_z by the delta method: sqrt((1/ESS - 1) / n) with the unclipped ESS.
        log_z_smoothed: Log of the mean Pareto-smoothed weight.
        ess: (mean w)^2 / mean(w^2), as a fraction of the samples, with clipped weights.
        ess_unclipped: ESS fraction with the unclipped weights.
        elbo: Mean log-weight, clamped below.
        pareto_k: Shape of the weights' tail; above `LARGEST_K` the weights cannot be trusted.
        largest_weight: Share of the largest weight in the sum of all.
        failed: Number of samples whose evaluation failed; their weight is zero, and they are left out of the ELBO.
        intervals: Intervals of log_z, ess, ess_unclipped and elbo.
    """

    log_z: float
    log_z_error: float
    log_z_smoothed: float
    ess: float
    ess_unclipped: float
    elbo: float
    pareto_k: float | None
    largest_weight: float
    failed: int
    intervals: dict[str, Interval | None]


class Bounds(NamedTuple):
    """Metrics of a model on reference samples.

    Attributes:
        nll: Mean of -log q with respect to the target's own measure.
        eubo: Mean of log p - log q.
        outside: Fraction of the reference outside the range of the model, where q is zero. It is left out of the two
            means, which would be infinite.
        intervals: Intervals of nll and eubo.
    """

    nll: float
    eubo: float
    outside: float
    intervals: dict[str, Interval | None]


def clip_count(samples: int) -> int:
    """Number of largest weights to clip; a single one would be set to itself."""
    count = int(samples * CLIPPED)
    return count if count > 1 else 0


def clip_largest(log_weights: Float[np.ndarray, " samples"]) -> Float[np.ndarray, " samples"]:
    """Log-weights with the top 0.01 % set to the smallest of them."""
    return clipped(torch.from_numpy(log_weights), CLIPPED).numpy()


def clamp_lowest(log_weights: Float[np.ndarray, " samples"]) -> Float[np.ndarray, " samples"]:
    """Log-weights with the lowest 0.01 % set to the highest of them."""
    return clamped(torch.from_numpy(log_weights), CLIPPED).numpy()


def log_mean_exp(values: Float[np.ndarray, " samples"]) -> float:
    """Log of the mean of exponentials; minus infinity if all are zero."""
    largest = float(values.max())
    return largest + math.log(np.exp(values - largest).mean()) if math.isfinite(largest) else largest


def effective_sample_size(log_weights: Float[np.ndarray, " samples"]) -> float:
    """Reverse effective sample size as a fraction of the samples.

    (mean w)^2 / mean(w^2); the paper's formula lacks the square on its estimate of Z.

    Example:
        >>> round(effective_sample_size(np.log([1.0, 3.0])), 9)
        0.8
    """
    largest = log_weights.max()
    if not np.isfinite(largest):
        return 0.0
    weights = np.exp(log_weights - largest)
    return float(weights.mean() ** 2 / (weights**2).mean())


def smooth(log_weights: Float[np.ndarray, " samples"]) -> Smoothed:
    """Pareto-smoothed importance sampling (Vehtari et al. 2024): replaces the tail by quantiles of its Pareto fit."""
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < FEWEST or np.ptp(finite) == 0.0:
        return Smoothed(log_weights, None)
    from arviz_stats.base.array import array_stats

    # It expects minus the log-weights and returns them normalised to sum 1. Zero weights do not affect the tail.
    safe = np.maximum(log_weights, finite.max() - 700.0)
    try:
        smoothed, pareto_k = array_stats.psislw(-safe)  # type: ignore[no-untyped-call]
    except ValueError:
        # All weights in the tail are equal: the tail is bounded above.
        return Smoothed(log_weights, None)
    pareto_k = float(pareto_k)
    # Undo the normalisation, so that weights outside the tail keep their values.
    shift = float(safe.min() - smoothed[safe.argmin()])
    return Smoothed(np.asarray(smoothed) + shift, pareto_k if math.isfinite(pareto_k) else None)


def importance(log_weights: Float[np.ndarray, " samples"], generator: np.random.Generator) -> Importance:
    """Compute all metrics of importance weights, with their intervals.

    Args:
        log_weights: log p - log q of independent samples of the model, float64; minus infinity where p failed.
        generator: Random generator of the bootstrap.
    """
    log_z, ess_unclipped = log_mean_exp(log_weights), effective_sample_size(log_weights)
    clipped = clip_largest(log_weights)
    finite = np.isfinite(log_weights)
    clamped = clamp_lowest(log_weights[finite])
    smoothed = smooth(log_weights)
    samples = len(log_weights)
    error = math.sqrt(max(1 / ess_unclipped - 1, 0.0) / samples) if ess_unclipped > 0 else math.inf
    elbo = float(clamped.mean()) if len(clamped) else -math.inf
    ess = effective_sample_size(clipped)
    metrics = {"log_z": log_z, "ess": ess, "ess_unclipped": ess_unclipped, "elbo": elbo}
    blocks = min(BLOCKS, samples)
    block = sample_blocks(0, samples)
    draws = draw_blocks(blocks, generator)
    replicates = (
        {
            "log_z": log_z + _log(_ratio(draws, block, np.exp(log_weights - log_z), np.ones(samples))),
            "ess": _ess_replicates(draws, block, clipped),
            "ess_unclipped": _ess_replicates(draws, block, log_weights),
            "elbo": _ratio(draws, block[finite], clamped, np.ones(len(clamped))),
        }
        if math.isfinite(log_z)
        else {}
    )
    return Importance(
        log_z=log_z,
        log_z_error=error,
        log_z_smoothed=log_mean_exp(smoothed.log_weights),
        ess=ess,
        ess_unclipped=ess_unclipped,
        elbo=elbo,
        pareto_k=smoothed.pareto_k,
        largest_weight=math.exp(float(log_weights.max()) - log_z) / samples if math.isfinite(log_z) else 1.0,
        failed=int((~finite).sum()),
        intervals={name: interval(metrics[name], values, blocks=blocks) for name, values in replicates.items()},
    )


class Mean(NamedTuple):
    """A weighted mean with its interval; NaN and None if all weights are zero."""

    value: float
    interval: Interval | None


def weighted_mean(
    log_weights: Float[np.ndarray, " samples"], values: Float[np.ndarray, " samples"], generator: np.random.Generator
) -> Mean:
    """Mean of a quantity with the samples' clipped weights; samples of weight zero may be NaN.

    Args:
        log_weights: Log-weights of independent samples of the model.
        values: Value of the quantity for each sample.
        generator: Random generator of the bootstrap.
    """
    clipped = clip_largest(log_weights)
    finite = np.isfinite(clipped)
    if not finite.any():
        return Mean(math.nan, None)
    weights = np.exp(clipped[finite] - clipped.max())
    # A value of 1e8 kT, or NaN, at a weight of zero must not be added.
    products = np.where(weights > 0, weights * values[finite], 0.0)
    mean = float(products.sum() / weights.sum())
    draws = draw_blocks(min(BLOCKS, len(values)), generator)
    replicates = _ratio(draws, sample_blocks(0, len(values))[finite], products, weights)
    return Mean(mean, interval(mean, replicates, blocks=draws.shape[1]))


def bounds(
    log_q: Float[np.ndarray, " frames"],
    log_p: Float[np.ndarray, " frames"],
    weights: Float[np.ndarray, " frames"],
    block: np.ndarray,
    generator: np.random.Generator,
) -> Bounds:
    """NLL and EUBO of a model on reference samples.

    Args:
        log_q: Log density of the model, with respect to the same measure as log_p; minus infinity outside its range.
        log_p: Unnormalised log density of the target.
        weights: Weights of the samples.
        block: Block of each sample, by chain.
        generator: Random generator of the bootstrap.
    """
    inside = np.isfinite(log_q)
    weight, where = weights[inside], block[inside]
    draws = draw_blocks(int(block.max()) + 1, generator)
    metrics, intervals = {}, {}
    for name, values in (("nll", -log_q[inside]), ("eubo", (log_p - log_q)[inside])):
        total = weight.sum()
        metrics[name] = float((weight * values).sum() / total) if total > 0 else math.inf
        replicates = _ratio(draws, where, weight * values, weight)
        intervals[name] = interval(metrics[name], replicates, blocks=draws.shape[1])
    outside = float(weights[~inside].sum() / weights.sum())
    return Bounds(metrics["nll"], metrics["eubo"], outside, intervals)


def _ratio(draws: np.ndarray, block: np.ndarray, above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """Replicates of sum(above) / sum(below)."""
    blocks = draws.shape[1]
    numerator = draws @ np.bincount(block, above, minlength=blocks)
    denominator = draws @ np.bincount(block, below, minlength=blocks)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(numerator / denominator)


def _log(values: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _ess_replicates(draws: np.ndarray, block: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    first = _ratio(draws, block, weights, np.ones_like(weights))
    second = _ratio(draws, block, weights**2, np.ones_like(weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(first**2 / second)
