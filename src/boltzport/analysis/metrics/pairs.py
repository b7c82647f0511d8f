"""The pairs of torsions that a molecule without phi and psi is shown by: those with the most information."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

BINS = 12
"""Bins along each torsion."""
MOST_PAIRS = 4
"""Largest number of pairs."""


class TorsionPair(NamedTuple):
    """Two torsions, by their place, and their mutual information in nats."""

    first: int
    second: int
    information: float


def informative_pairs(
    torsions: Float[np.ndarray, "samples torsions"], weights: Float[np.ndarray, " samples"]
) -> list[TorsionPair]:
    """Disjoint pairs of torsions, that with the largest mutual information first.

    The mutual information is how much one torsion tells about the other: what a map of the two shows, and two profiles
    do not.

    Args:
        torsions: Values in radian.
        weights: Weight of each sample.

    Example:
        >>> turns = np.random.default_rng(0).uniform(-np.pi, np.pi, (4000, 3))
        >>> turns[:, 2] = -turns[:, 0] + 0.1
        >>> [(pair.first, pair.second) for pair in informative_pairs(turns, np.ones(4000))]
        [(0, 2)]
    """
    bins = np.floor((torsions / (2.0 * math.pi) + 0.5) * BINS).astype(np.int64) % BINS
    weights = weights / weights.sum()
    places = range(torsions.shape[1])
    found = [
        TorsionPair(first, second, _mutual_information(bins[:, first], bins[:, second], weights))
        for first in places
        for second in places
        if first < second
    ]
    chosen: list[TorsionPair] = []
    for pair in sorted(found, key=lambda pair: -pair.information):
        if len(chosen) < MOST_PAIRS and not any({pair.first, pair.second} & {*other[:2]} for other in chosen):
            chosen.append(pair)
    return chosen


def _mutual_information(
    first: Int[np.ndarray, " samples"], second: Int[np.ndarray, " samples"], weights: Float[np.ndarray, " samples"]
) -> float:
    joint = np.bincount(BINS * first + second, weights, minlength=BINS**2).reshape(BINS, BINS)
    apart = np.outer(joint.sum(1), joint.sum(0))
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / apart[seen])).sum())
