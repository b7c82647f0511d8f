"""Samples streamed in batches: hold back the largest weights, and draw from the weighted samples."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Batch(NamedTuple):
    """A batch of samples.

    Attributes:
        coordinates: Coordinates in the units of the layout.
        reduced_energy: Minus the log density of the target, in kT.
        log_weights: Log ratio of target to model; minus infinity where the evaluation failed.
        block: Block of each sample, for the bootstrap.
    """

    coordinates: Float[np.ndarray, "batch dimensions"]
    reduced_energy: Float[np.ndarray, " batch"]
    log_weights: Float[np.ndarray, " batch"]
    block: Int[np.ndarray, " batch"]

    def take(self, index: Int[np.ndarray, " taken"]) -> "Batch":
        """Return the samples with these indices."""
        return Batch(*(part[index] for part in self))

    def join(self, other: "Batch") -> "Batch":
        """Return these samples followed by others."""
        return Batch(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))


class HoldOut:
    """Holds back the samples with the k largest weights of a stream, so that their weights can be clipped at its end.

    Samples that are passed on are certainly not among them. Subtracting the excess at the end instead would lose all
    digits if one weight is many orders of magnitude above the others.

    Args:
        count: Number of samples to hold back.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: Batch | None = None

    def push(self, batch: Batch) -> Batch:
        """Add a batch and pass on the samples that are not among the largest so far."""
        if self._count == 0:
            return batch
        pool = batch if self._held is None else self._held.join(batch)
        if len(pool.log_weights) <= self._count:
            self._held = pool
            return pool.take(np.arange(0))
        order = np.argpartition(pool.log_weights, len(pool.log_weights) - self._count)
        self._held = pool.take(order[-self._count :])
        return pool.take(order[: -self._count])

    def finish(self) -> Batch | None:
        """Return the samples held back, all with the smallest of their weights."""
        if self._held is None:
            return None
        clipped = np.full_like(self._held.log_weights, self._held.log_weights.min())
        return self._held._replace(log_weights=clipped)


class Reservoir:
    """A draw of fixed size, with replacement, from a weighted stream; each slot holds a sample drawn by weight.

    A batch replaces each slot with a probability equal to its fraction of the total weight so far, so the result has
    exactly the distribution of a draw from all samples at once.

    Args:
        size: Number of slots.
        generator: Random generator.
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._generator = generator
        self._log_total = -math.inf
        self.samples: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Add a batch, which may replace some of the slots."""
        largest = float(batch.log_weights.max(initial=-math.inf))
        if largest == -math.inf:
            return
        weights = np.exp(batch.log_weights - largest)
        log_sum = largest + math.log(weights.sum())
        log_total = float(np.logaddexp(self._log_total, log_sum))
        taken = self._generator.random(self._size) < math.exp(log_sum - log_total)
        self._log_total = log_total
        cumulative = np.cumsum(weights)
        at = self._generator.random(int(taken.sum())) * cumulative[-1]
        # Rounding may put a draw at the very end.
        drawn = batch.take(np.minimum(np.searchsorted(cumulative, at, side="right"), len(weights) - 1))
        if self.samples is None:
            self.samples = drawn
            return
        for slots, values in zip(self.samples, drawn, strict=True):
            slots[taken] = values
