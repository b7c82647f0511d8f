"""Effective size of a sampler from the errors of its estimates over repeated independent runs, not from a formula.

A probability p that is estimated from n independent samples has the variance p (1 - p) / n. So the mean squared error
of the estimates of independent runs gives the number of independent samples that each run is worth. A sampler that
is biased, or that has not left its first basin, has an error that does not fall: its effective size does not grow.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

CEILING = 6.0
"""Free energy in kT, relative to the uniform density, above which the bins of a profile do not count: there the truth
itself has few samples. A bin that a sampler did not visit counts with this value."""


class EffectiveSize(NamedTuple):
    """Number of independent samples that a run is worth.

    Attributes:
        size: Number of independent samples with the same mean squared error.
        error: Relative standard error of `size`, by the jackknife over runs.
        bias: Fraction of the mean squared error that is common to all runs.
    """

    size: float
    error: float
    bias: float


def effective_size(
    estimates: Float[np.ndarray, "runs probabilities"],
    truth: Float[np.ndarray, " probabilities"],
    variance: Float[np.ndarray, " probabilities"] | None = None,
) -> EffectiveSize:
    """Effective size of independent runs from their estimates of probabilities, which all count alike.

    Args:
        estimates: Estimates of each run, at least two.
        truth: True probabilities, between 0 and 1.
        variance: Variance of the truth, if it has errors itself; these are not counted as the sampler's.

    Example:
        >>> random = np.random.default_rng(0)
        >>> truth = np.array([0.2, 0.7, 0.1])
        >>> found = effective_size(random.multinomial(1000, truth, size=50) / 1000, truth)
        >>> 800 < found.size < 1250, found.bias < 0.2
        (True, True)
    """
    if len(estimates) < 2:
        raise ValueError(f"expected at least 2 runs, got {len(estimates)}")
    known = np.zeros_like(truth) if variance is None else variance
    inverse, bias = _inverse(estimates, truth, known)
    size = 1.0 / inverse if inverse > 0 else math.inf
    if len(estimates) < 3 or not math.isfinite(size):
        return EffectiveSize(size, math.inf, bias)
    others = [_inverse(np.delete(estimates, run, axis=0), truth, known)[0] for run in range(len(estimates))]
    logs = np.log(np.maximum(others, 1e-300))
    runs = len(estimates)
    return EffectiveSize(size, float(math.sqrt((runs - 1) / runs * ((logs - logs.mean()) ** 2).sum())), bias)


def _inverse(estimates: np.ndarray, truth: np.ndarray, variance: np.ndarray) -> tuple[float, float]:
    """One over the effective size, and the share of it that all runs have in common."""
    alone = truth * (1.0 - truth)
    spread = estimates.var(axis=0, ddof=1)
    # The squared deviation of the mean, less what the noise of the runs and of the truth adds to it.
    common = (estimates.mean(axis=0) - truth) ** 2 - spread / len(estimates) - variance
    noise, bias = float((spread / alone).mean()), max(float((common / alone).mean()), 0.0)
    total = noise + bias
    return total, bias / total if total > 0 else 0.0


def profile_errors(
    profiles: Float[np.ndarray, "*runs bins"], truth: Float[np.ndarray, " bins"], *, ceiling: float = CEILING
) -> Float[np.ndarray, "*runs"]:
    """Mean absolute error in kT of free energy profiles, over the bins in which the true one is below a ceiling.

    A bin that was not visited counts with the ceiling, so that a sampler that misses a basin does not look better than
    one that finds it.

    Args:
        profiles: Probabilities of the bins.
        truth: True probabilities.
        ceiling: Free energy in kT relative to the uniform density.

    Example:
        >>> truth = np.array([0.5, 0.5, 0.0])
        >>> profile_errors(np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]), truth).round(2).tolist()
        [0.0, 3.55]
    """
    bins = profiles.shape[-1]
    least = math.exp(-ceiling) / bins
    counted = truth > least
    found = np.log(np.maximum(profiles[..., counted], least)) - np.log(truth[counted])
    return np.asarray(np.abs(found).mean(-1))


def ratio_variance(sums: Float[np.ndarray, "blocks values"], totals: Float[np.ndarray, " blocks"]) -> np.ndarray:
    """Variance of ratios of sums, such as weighted means, from independent blocks.

    Args:
        sums: Sum of each value in each block.
        totals: Sum of the weights of each block.
    """
    blocks, total = len(totals), totals.sum()
    share = sums.sum(0) / total
    left = sums - totals[:, None] * share
    return np.asarray(blocks / max(blocks - 1, 1) * (left**2).sum(0) / total**2)
