"""Weighted draws in a temporary file, for draws that are too expensive to repeat."""

import tempfile
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.ensembles.numbers import Frames, Numbers, to_numpy


class Spool:
    """Draws whose coordinates are on disk, so that memory grows only with their weights and energies.

    Args:
        dimension: Number of coordinates.
        dtype: Data type of the coordinates.
        device: Device of the frames that are chosen.
    """

    def __init__(self, dimension: int, dtype: torch.dtype, device: torch.device) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed, and removed, once its draws are chosen)
        self._dimension, self._dtype, self._device = dimension, dtype, device
        self._parts: list[Numbers] = []

    def __len__(self) -> int:
        """Number of draws."""
        return sum(len(part.draw) for part in self._parts)

    @property
    def log_weights(self) -> Float[np.ndarray, " draws"]:
        """Log-weights of all draws."""
        return np.concatenate([part.log_weights for part in self._parts])

    def add(self, frames: Frames) -> None:
        """Append a batch of draws."""
        self._file.write(np.ascontiguousarray(to_numpy(frames.coordinates.to(self._dtype))).tobytes())
        self._parts.append(frames.numbers)

    def chosen(self, counts: Int[np.ndarray, " draws"], *, batch: int) -> Iterator[Frames]:
        """Copies of the draws by their counts, with equal weights; `draw` tells which."""
        size = self._dimension * self._dtype.itemsize
        done = 0
        with self._file as file:
            file.seek(0)
            for part in self._parts:
                length = len(part.draw)
                read = bytearray(file.read(length * size))
                coordinates = torch.frombuffer(read, dtype=self._dtype).reshape(length, self._dimension)
                taken = np.repeat(np.arange(length), counts[done : done + length])
                done += length
                for start in range(0, len(taken), batch):
                    rows = taken[start : start + batch]
                    numbers = Numbers(np.zeros(len(rows)), part.reduced_energy[rows], part.log_q[rows], part.draw[rows])
                    yield Frames(coordinates[torch.from_numpy(rows)].to(self._device), numbers)
