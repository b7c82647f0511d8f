"""Convergence diagnostics: R-hat and effective sample sizes of draws from several chains.

A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, Rank-normalization, folding, and localization: an
improved R-hat, Bayesian Analysis 16 (2021). Draws are (draws, chains).
"""

import numpy as np
import torch
from jaxtyping import Float, Int

Draws = Float[np.ndarray, "draws chains"]


def rhat(draws: Draws) -> float:
    """The larger of the split R-hats of rank-normalised draws and of rank-normalised distances from the median.

    Infinite if the chains are constant and differ; one if all draws are equal.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves))
    return max(_plain_rhat(_rank_normalised(halves)), _plain_rhat(_rank_normalised(folded)))


def bulk_size(draws: Draws) -> float:
    """Bulk effective sample size: of rank-normalised draws of half chains, by Geyer's monotone sequence."""
    return _effective_size(_rank_normalised(_split(draws)))


def circular_rhat(angles: Draws) -> float:
    """R-hat of angles in radian: the worse of their cosines and sines, whose ranks have no periodic boundary."""
    return max(rhat(np.cos(angles)), rhat(np.sin(angles)))


def circular_bulk_size(angles: Draws) -> float:
    """Effective sample size of angles: the worse of their cosines and sines."""
    return min(bulk_size(np.cos(angles)), bulk_size(np.sin(angles)))


def transitions(angles: Draws, *, bins: int = 36) -> int:
    """Number of transitions between basins of an angle, from one draw to the next.

    Args:
        angles: Angles in radian.
        bins: Number of bins of the histogram of all draws, whose peaks are the basins.
    """
    number = np.floor((angles + np.pi) / (2 * np.pi) * bins).astype(int) % bins
    basin = basins(np.bincount(number.ravel(), minlength=bins))[number]
    return int((basin[1:] != basin[:-1]).sum())


def basins(counts: Int[np.ndarray, " bins"], *, depth: float = 3.0) -> Int[np.ndarray, " bins"]:
    """Basin of each bin of a histogram on a circle: peaks separated by valleys that are lower by a factor of `depth`.

    Example:
        >>> basins(np.array([50, 400, 60, 1, 30, 90, 20, 2])).tolist()
        [1, 1, 1, 1, 5, 5, 5, 1]
    """
    labels = np.full(len(counts), -1)
    # From the peaks down: a bin joins the adjacent basin; where two basins meet, the lower one stays separate only if
    # its peak is high enough above the meeting point.
    for k in np.argsort(-counts, kind="stable"):
        touched = {int(labels[(k + side) % len(counts)]) for side in (-1, 1)} - {-1}
        if not touched:
            labels[k] = k
            continue
        highest = max(touched, key=lambda peak: counts[peak])
        labels[k] = highest
        for other in touched - {highest}:
            if counts[other] < depth * (counts[k] + 1):
                labels[labels == other] = highest
    return labels


def _split(draws: Draws) -> Float[np.ndarray, "half pieces"]:
    half = len(draws) // 2
    return np.concatenate([draws[:half], draws[len(draws) - half :]], axis=1)


def _rank_normalised(draws: Draws) -> Draws:
    """Normal scores of the ranks among all draws; ties share their mean rank."""
    flat = draws.ravel()
    _, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - 0.5 * (counts - 1))[inverse]
    share = torch.from_numpy((rank - 0.375) / (flat.size + 0.25))
    return np.asarray(torch.special.ndtri(share).numpy()).reshape(draws.shape)


def _plain_rhat(draws: Draws) -> float:
    length = len(draws)
    within = draws.var(axis=0, ddof=1).mean()
    between = draws.mean(axis=0).var(ddof=1)
    if within == 0.0:
        return 1.0 if between == 0.0 else float("inf")
    return float(np.sqrt((length - 1) / length + between / within))


def _effective_size(draws: Draws) -> float:
    length = len(draws)
    within = draws.var(axis=0, ddof=1).mean()
    total = within * (length - 1) / length + draws.mean(axis=0).var(ddof=1)
    if total == 0.0:
        return float(draws.size)
    centred = draws - draws.mean(axis=0)
    spectrum = np.fft.rfft(centred, n=2 * length, axis=0)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:length].mean(axis=1) / length
    correlation = 1.0 - (within - covariance * length / (length - 1)) / total
    correlation[0] = 1.0
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if len(negative) else pairs)
    time = max(2.0 * pairs.sum() - 1.0, 1.0 / np.log10(draws.size))
    return float(draws.size / time)
