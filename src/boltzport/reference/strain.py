"""Strained stretches of chains: what a converged ensemble cannot have.

A chain that started in a bad structure, a ring threaded or a clash half undone, may stay there with its bonds and
angles stretched. Its torsions look like those of the others; its energy and the chi-square of its stiff coordinates do
not.
"""

import numpy as np
from jaxtyping import Bool, Float, Int

WINDOWS = 8
"""Stretches of each chain that are compared with all others."""
OUTSIDE = 8.0
"""Robust standard deviations above the median of all stretches beyond which one stands out, in energy and in
chi-square: a conformation that is merely rare and higher in energy has its bonds and angles as they should be."""
LEAST = 4
"""Fewest frames of a stretch."""


def strained(
    stiff: Float[np.ndarray, "frames stiff"],
    reduced_energy: Float[np.ndarray, " frames"],
    draws: Int[np.ndarray, "draws chains"],
) -> Bool[np.ndarray, " frames"]:
    """Which frames lie in strained stretches.

    Args:
        stiff: Coordinates with one mode and a narrow distribution: bonds, angles, torsions of siblings.
        reduced_energy: In kT.
        draws: Frame of each draw of each chain.
    """
    result = np.zeros(len(reduced_energy), dtype=bool)
    windows = min(WINDOWS, len(draws) // LEAST)
    if not windows:
        return result
    pieces = [piece for frames in draws.T for piece in np.array_split(frames, windows)]
    figures = [reduced_energy]
    if stiff.shape[1]:
        centre = np.median(stiff, axis=0)
        figures.append(np.mean(((stiff - centre) / _spread(stiff, centre)) ** 2, axis=1))
    outside = np.ones(len(pieces), dtype=bool)
    for figure in figures:
        means = np.array([figure[piece].mean() for piece in pieces])
        middle = np.median(means)
        outside &= means > middle + OUTSIDE * _spread(means, middle)
    for piece in np.flatnonzero(outside):
        result[pieces[piece]] = True
    return result


def _spread(values: np.ndarray, centre: np.ndarray | float) -> np.ndarray:
    """Standard deviation of a normal distribution with this median of absolute deviations."""
    return np.asarray(np.maximum(1.4826 * np.median(np.abs(values - centre), axis=0), 1e-12))
