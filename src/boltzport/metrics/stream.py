"""Samples that stream by in batches: the largest weights held back, and a fair draw from the weighted rest."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Batch(NamedTuple):
    """Some samples.

    Attributes:
        coordinates: In the units of the layout.
        reduced_energy: Minus the log density of the target, kT.
        log_weights: Logarithm of target over model; minus infinity where the evaluation failed.
        block: Block of each sample, for the bootstrap.
    """

    coordinates: Float[np.ndarray, "batch dimensions"]
    reduced_energy: Float[np.ndarray, " batch"]
    log_weights: Float[np.ndarray, " batch"]
    block: Int[np.ndarray, " batch"]

    def take(self, index: Int[np.ndarray, " taken"]) -> "Batch":
        """Samples by number."""
        return Batch(*(part[index] for part in self))

    def join(self, other: "Batch") -> "Batch":
        """These samples and others."""
        return Batch(*(np.concatenate(parts) for parts in zip(self, other, strict=True)))


class HoldOut:
    """Holds back the samples with the k largest weights of a stream, so that their weights can be clipped at its end.

    What is let go is certain not to be among them. Subtracting the excess at the end instead would lose all digits
    where one weight is many orders above the others.

    Args:
        count: How many to hold back.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: Batch | None = None

    def push(self, batch: Batch) -> Batch:
        """Take a batch in and let go of what is not among the largest so far."""
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
        """The samples held back, all with the smallest of their weights."""
        if self._held is None:
            return None
        clipped = np.full_like(self._held.log_weights, self._held.log_weights.min())
        return self._held._replace(log_weights=clipped)


class Reservoir:
    """A draw with replacement from a weighted stream, of fixed size: each slot holds a sample by its weight.

    A batch takes over each slot with the probability of its share of all weight so far, so the result has exactly the
    distribution of a draw from all samples at once.

    Args:
        size: Number of slots.
        generator: Draws.
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._generator = generator
        self._log_total = -math.inf
        self.samples: Batch | None = None

    def add(self, batch: Batch) -> None:
        """Let a batch compete for the slots."""
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
        # Rounding may put a draw on the very end.
        drawn = batch.take(np.minimum(np.searchsorted(cumulative, at, side="right"), len(weights) - 1))
        if self.samples is None:
            self.samples = drawn
            return
        for slots, values in zip(self.samples, drawn, strict=True):
            slots[taken] = values
