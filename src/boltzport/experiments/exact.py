"""Independent samples of a toy in the form of a reference ensemble."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.targets import Toy

SEED = 3 * 2**30
"""Added to the seed, to keep it far from the seeds of trainings, training samples and evaluations. Torch's generator
uses only the last 32 bits of a seed."""
CHAINS = 40
"""Number of blocks for the errors; the samples themselves are independent."""


@dataclass(frozen=True, kw_only=True)
class ExactSamples:
    """Exact samples as a reference.

    Attributes:
        coordinates: The samples.
        reduced_energy: Minus the log density of each sample.
        weights: Weights of the samples, all 1.
        chain: Block of each sample.
        provenance: Origin of the samples.
    """

    coordinates: Float[np.ndarray, "frames dimensions"]
    reduced_energy: Float[np.ndarray, " frames"]
    weights: Float[np.ndarray, " frames"]
    chain: Int[np.ndarray, " frames"]
    provenance: Mapping[str, object]


def exact_samples(toy: Toy, n: int, *, seed: int) -> ExactSamples:
    """Draw exact samples of a toy.

    Args:
        toy: The target.
        n: Number of samples.
        seed: Seed of the random generator.
    """
    points = toy.sample(n, generator=torch.Generator().manual_seed(SEED + seed)).double()
    return ExactSamples(
        coordinates=points.numpy(),
        reduced_energy=-toy.log_density(points).numpy(),
        weights=np.ones(n),
        chain=np.arange(n) % CHAINS,
        provenance={
            "system": toy.name,
            "sampler": "exact",
            "checksum": f"{n} exact samples, seed {seed}",
            "diagnostics": {"converged": True, "message": "converged: independent samples of the toy"},
        },
    )
