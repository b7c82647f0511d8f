"""The arrays of a reference, and subsets of them."""

from dataclasses import dataclass

import numpy as np

from boltzport.analysis.metrics import Batch


@dataclass(frozen=True, kw_only=True)
class ReferenceFrames:
    """The arrays of a reference, checked.

    Attributes:
        coordinates: Coordinates of the frames, (frames, dimensions).
        reduced_energy: Reduced energies in kT.
        weights: Weights of the frames.
        chain: Number of the chain of each frame.
        block: Number of the block of each frame, for the bootstrap.
    """

    coordinates: np.ndarray
    reduced_energy: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    block: np.ndarray

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.block.max()) + 1

    def thinned(self, most: int) -> "ReferenceFrames":
        """At most a number of frames, evenly spaced."""
        step = -(-len(self.weights) // most)
        if step <= 1:
            return self
        return self._take(np.arange(0, len(self.weights), step))

    def half(self, start: int) -> "ReferenceFrames":
        """The frames of the even (0) or of the odd (1) blocks."""
        return self._take(np.flatnonzero(self.block % 2 == start))

    def draw(self, count: int, generator: np.random.Generator) -> Batch:
        """Draw frames in random order: without replacement if all weights are equal, else by their weights."""
        if np.ptp(self.weights) == 0.0:
            index = generator.permutation(len(self.weights))[:count]
        else:
            index = generator.choice(len(self.weights), size=count, p=self.weights / self.weights.sum())
        return Batch(
            np.asarray(self.coordinates[index]), self.reduced_energy[index], np.zeros(len(index)), self.block[index]
        )

    def _take(self, index: np.ndarray) -> "ReferenceFrames":
        block = np.unique(self.block[index], return_inverse=True)[1]
        return ReferenceFrames(
            coordinates=self.coordinates[index],
            reduced_energy=self.reduced_energy[index],
            weights=self.weights[index],
            chain=self.chain[index],
            block=block,
        )
