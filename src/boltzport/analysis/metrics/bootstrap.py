"""Confidence intervals from blocks of samples, cheap enough for every metric.

Sums over samples (of weights, of counts in bins) are kept for each of a few dozen blocks. A bootstrap replicate draws
blocks with replacement and adds their sums, so that it costs as much as the metric itself, for any number of samples.
A block of a model is every 64th of its independent samples; a block of a reference is a chain, or a segment of one,
which is practically independent of the others even though single frames are not.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float, Int

BLOCKS = 64
"""Number of blocks of a model's samples."""
REPLICATES = 200
"""Number of bootstrap replicates."""
LEVEL = 0.95
"""Coverage probability of an interval."""
FEWEST_CHAINS = 8
"""A reference with fewer chains is cut into segments in time."""


class Interval(NamedTuple):
    """Ends of a confidence interval."""

    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return 0.5 * (self.upper - self.lower)


def sample_blocks(start: int, stop: int) -> Int[np.ndarray, " batch"]:
    """Block of each of the independent samples start..stop-1; balanced for any number of samples."""
    return np.arange(start, stop) % BLOCKS


def chain_blocks(chain: Int[np.ndarray, " frames"]) -> Int[np.ndarray, " frames"]:
    """Block of each frame of a reference: its chain, or a segment of it if there are few chains.

    Args:
        chain: Index of the chain of each frame; the frames of a chain are in time order.
    """
    _, number, lengths = np.unique(chain, return_inverse=True, return_counts=True)
    count = len(lengths)
    if count >= FEWEST_CHAINS:
        return np.asarray(number % BLOCKS)
    stretches = math.ceil(BLOCKS / 2 / count)
    blocks = np.empty(len(chain), dtype=np.int64)
    for index, length in enumerate(lengths):
        blocks[number == index] = index * stretches + np.arange(length) * stretches // length
    return np.unique(blocks, return_inverse=True)[1]


def draw_blocks(
    blocks: int, generator: np.random.Generator, *, replicates: int = REPLICATES
) -> Float[np.ndarray, "replicates blocks"]:
    """Number of times each block is drawn in each replicate."""
    return generator.multinomial(blocks, np.full(blocks, 1 / blocks), size=replicates).astype(np.float64)


class Draws(NamedTuple):
    """Number of times each block of a reference and of a model is drawn in each replicate."""

    reference: Float[np.ndarray, "replicates reference_blocks"]
    model: Float[np.ndarray, "replicates model_blocks"]

    @property
    def blocks(self) -> int:
        """The smaller number of blocks, which determines the widening of an interval."""
        return min(int(self.reference.shape[1]), int(self.model.shape[1]))


def interval(
    estimate: float,
    replicates: Float[np.ndarray, " replicates"],
    *,
    blocks: int,
    level: float = LEVEL,
    least: float = -math.inf,
) -> Interval | None:
    """Interval of a metric from its bootstrap replicates; None if too few of them are finite.

    Percentiles of the replicates' deviations from their own mean, centred at the estimate. Noise biases a divergence of
    histograms upwards, and its noisier replicates by twice as much; subtracting their mean removes the second half. So
    the interval is for the expectation of the metric at this number of samples. Deviations are widened for the number
    of blocks, as in Student's t.

    Args:
        estimate: The metric from all samples.
        replicates: The metric from resampled blocks.
        blocks: Number of blocks; the smaller one if two sets of blocks are resampled.
        level: Coverage probability.
        least: Lower bound of the metric.
    """
    finite = replicates[np.isfinite(replicates)]
    if not math.isfinite(estimate) or blocks < 2 or len(finite) < max(2, len(replicates) / 2):
        return None
    tail = 0.5 * (1 - level)
    student = scipy.stats.t.ppf(1 - tail, blocks - 1) / scipy.stats.norm.ppf(1 - tail)
    widening = student * math.sqrt(blocks / (blocks - 1))
    lower, upper = widening * np.quantile(finite - finite.mean(), [tail, 1 - tail])
    return Interval(max(estimate + float(lower), least), max(estimate + float(upper), least))
