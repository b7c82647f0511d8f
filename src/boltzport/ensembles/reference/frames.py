"""Internal coordinates of frames, in batches."""

import numpy as np
import torch
from jaxtyping import Float

from boltzport.molecules import Molecule

BATCH = 20_000


def internal_coordinates(
    molecule: Molecule, positions: Float[np.ndarray, "frames atoms 3"]
) -> Float[np.ndarray, "frames dimensions"]:
    """Internal coordinates, float32, of positions in nm and in the molecule's atom order."""
    batches = [
        molecule.coordinates.to_internal(torch.from_numpy(positions[start : start + BATCH].astype(np.float64)))
        for start in range(0, len(positions), BATCH)
    ]
    return np.concatenate([batch.coordinates.float().numpy() for batch in batches])
