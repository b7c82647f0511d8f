"""Strained segments of chains, which a converged ensemble cannot have.

A chain that started in a bad structure, with a threaded ring or a partly resolved clash, may stay there with strained
bonds and angles. Its torsions look like those of the others; its energy and the chi-square of its stiff coordinates do
not.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

WINDOWS = 8
"""Number of segments per chain that are compared with all others."""
OUTSIDE = 8.0
"""Robust standard deviations above the median of all segments beyond which one is an outlier, in both energy and
chi-square: a conformation that is merely rare and higher in energy has normal bonds and angles."""
LEAST = 4
"""Smallest number of frames in a segment."""


def strained(
    stiff: Float[np.ndarray, "frames stiff"],
    reduced_energy: Float[np.ndarray, " frames"],
    draws: Int[np.ndarray, "draws chains"],
) -> Bool[np.ndarray, " frames"]:
    """Mask of the frames in strained segments.

    Args:
        stiff: Coordinates with one mode and a narrow distribution: bonds, angles, torsions of siblings.
        reduced_energy: Reduced energies in kT.
        draws: Frame of each draw of each chain.
    """
    result = np.zeros(len(reduced_energy), dtype=bool)
    windows = min(WINDOWS, len(draws) // LEAST)
    if not windows:
        return result
    pieces = [piece for frames in draws.T for piece in np.array_split(frames, windows)]
    measures = [reduced_energy]
    if stiff.shape[1]:
        centre = np.median(stiff, axis=0)
        measures.append(np.mean(((stiff - centre) / _spread(stiff, centre)) ** 2, axis=1))
    outside = np.ones(len(pieces), dtype=bool)
    for measure in measures:
        means = np.array([measure[piece].mean() for piece in pieces])
        middle = np.median(means)
        outside &= means > middle + OUTSIDE * _spread(means, middle)
    for piece in np.flatnonzero(outside):
        result[pieces[piece]] = True
    return result


def _spread(values: np.ndarray, centre: np.ndarray | float) -> np.ndarray:
    """Standard deviation of a normal distribution with this median absolute deviation."""
    return np.asarray(np.maximum(1.4826 * np.median(np.abs(values - centre), axis=0), 1e-12))
