"""Wasserstein-2 distances: on the line, on the torus, and in the plane, between weighted samples."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.core.errors import RunError

ITERATIONS = 10_000_000
"""Iterations of the network simplex; with POT's default it stops early with a wrong distance and a warning."""
SUBSETS = 8
"""Number of disjoint subsets that the error of a distance is estimated from."""


class Distance(NamedTuple):
    """A distance and its standard error; NaN if there are too few samples."""

    value: float
    error: float


Metric = Callable[[np.ndarray, np.ndarray], float]


def wasserstein_line(
    first: Float[np.ndarray, " first"],
    second: Float[np.ndarray, " second"],
    *,
    first_weights: Float[np.ndarray, " first"] | None = None,
    second_weights: Float[np.ndarray, " second"] | None = None,
) -> float:
    """Exact W2 of samples on the line: the distance between their quantile functions.

    Example:
        >>> wasserstein_line(np.array([0.0, 1.0]), np.array([2.0, 3.0]))
        2.0
    """
    first_order, second_order = np.argsort(first), np.argsort(second)
    first_levels = _levels(len(first), first_weights, first_order)
    second_levels = _levels(len(second), second_weights, second_order)
    levels = np.union1d(first_levels, second_levels)
    middle = levels - 0.5 * np.diff(levels, prepend=0.0)
    # Rounding may leave a midpoint above the last level of one of the two.
    at_first = np.minimum(np.searchsorted(first_levels, middle), len(first) - 1)
    at_second = np.minimum(np.searchsorted(second_levels, middle), len(second) - 1)
    gap = first[first_order[at_first]].astype(np.float64) - second[second_order[at_second]]
    return math.sqrt(float((np.diff(levels, prepend=0.0) * gap**2).sum()))


def wasserstein_torus(
    first: Float[np.ndarray, "first angles"],
    second: Float[np.ndarray, "second angles"],
    *,
    first_weights: Float[np.ndarray, " first"] | None = None,
    second_weights: Float[np.ndarray, " second"] | None = None,
) -> float:
    """Exact joint W2 of angles in radian, with the shorter arc of each circle (Tan et al. 2025, appendix E.1).

    The cost matrix has the size of both numbers of samples: 1e4 each need 4 GB.
    """
    cost = np.zeros((len(first), len(second)))
    for angle in range(first.shape[1]):
        gap = np.abs(np.subtract.outer(first[:, angle].astype(np.float64), second[:, angle])) % (2 * np.pi)
        cost += np.minimum(gap, 2 * np.pi - gap) ** 2
    import ot

    with _convergence():
        squared = ot.emd2(
            _shares(len(first), first_weights), _shares(len(second), second_weights), cost, numItermax=ITERATIONS
        )
    return math.sqrt(max(float(squared), 0.0))


def wasserstein_plane(
    first: Float[np.ndarray, "first axes"],
    second: Float[np.ndarray, "second axes"],
    *,
    first_weights: Float[np.ndarray, " first"] | None = None,
    second_weights: Float[np.ndarray, " second"] | None = None,
) -> float:
    """Exact W2 of points with the Euclidean distance, in memory that grows only with the number of points."""
    import ot

    with _convergence():
        squared = ot.emd2_lazy(
            np.ascontiguousarray(first, dtype=np.float64),
            np.ascontiguousarray(second, dtype=np.float64),
            _shares(len(first), first_weights),
            _shares(len(second), second_weights),
            metric="sqeuclidean",
            numItermax=ITERATIONS,
            return_matrix=False,
        )
    return math.sqrt(max(float(squared), 0.0))


def with_error(metric: Metric, first: np.ndarray, second: np.ndarray) -> Distance:
    """Compute a distance with its standard error, from the scatter of the distance between small subsets.

    A distance between n samples is biased upwards, the more so the smaller n is. So the subsets are used only for the
    scatter, which falls with the square root of their size. Together they have a tenth of all samples, because the cost
    of a distance grows faster than the square of their number.

    Args:
        metric: Distance between two sets of samples of equal weight.
        first: Samples in random order.
        second: Samples in random order.
    """
    fewest = min(len(first), len(second))
    if fewest == 0:
        return Distance(math.nan, math.nan)
    size = max(fewest // (10 * SUBSETS), 2)
    parts = [slice(number * size, (number + 1) * size) for number in range(SUBSETS)]
    subsets = [metric(first[part], second[part]) for part in parts if part.stop <= fewest]
    scatter = float(np.std(subsets, ddof=1)) if len(subsets) > 1 else math.nan
    return Distance(metric(first, second), scatter * math.sqrt(size / fewest))


@contextmanager
def _convergence() -> Iterator[None]:
    """Turn POT's warning that it stopped before the optimum into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            yield
        except UserWarning as warning:
            raise RunError(f"optimal transport did not converge: {warning}") from None


def _shares(count: int, weights: np.ndarray | None) -> np.ndarray:
    return np.full(count, 1 / count) if weights is None else weights / weights.sum()


def _levels(count: int, weights: np.ndarray | None, order: np.ndarray) -> np.ndarray:
    """Cumulative probabilities of sorted samples, ending in 1."""
    levels = np.cumsum(_shares(count, weights)[order])
    return np.asarray(levels / levels[-1])
