"""Mean and standard error of a metric over runs."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Spread(NamedTuple):
    """A metric over runs.

    Attributes:
        mean: Mean over the runs that have the metric.
        error: Standard error of the mean; None for a single run.
        runs: Number of runs that have it.
    """

    mean: float
    error: float | None
    runs: int


def spread(values: Sequence[float]) -> Spread | None:
    """Mean and standard error, s / sqrt(n) with s from n - 1 degrees of freedom; None without a value.

    Example:
        >>> spread([1.0, 2.0, 6.0])
        Spread(mean=3.0, error=1.5275252316519468, runs=3)
        >>> spread([2.0])
        Spread(mean=2.0, error=None, runs=1)
    """
    if not values:
        return None
    count = len(values)
    mean = math.fsum(values) / count
    if count == 1:
        return Spread(mean, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Spread(mean, math.sqrt(variance / count), count)
