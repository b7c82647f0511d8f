"""Batches of frames with their weights and energies."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor


class Numbers(NamedTuple):
    """Weights and energies of frames.

    Attributes:
        log_weights: Log-weights: -reduced_energy - log_q; minus infinity where the evaluation failed.
        reduced_energy: Minus log_p of the target; for a molecule, the regularised energy in kT.
        log_q: Log density of the flow with respect to the target's own measure; NaN if it is not known.
        draw: Number of the draw of the flow that each frame is or started from.
    """

    log_weights: Float[np.ndarray, " frames"]
    reduced_energy: Float[np.ndarray, " frames"]
    log_q: Float[np.ndarray, " frames"]
    draw: Int[np.ndarray, " frames"]


class Frames(NamedTuple):
    """A batch of frames, with their weights and energies."""

    coordinates: Float[Tensor, "frames dimensions"]
    numbers: Numbers


def to_numpy(values: Tensor) -> np.ndarray:
    """Convert a tensor on any device to an array."""
    found: np.ndarray = values.detach().cpu().numpy()
    return found
