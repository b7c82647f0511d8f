"""Independent samples of a toy in the form of a reference ensemble."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.targets import Toy

SEED = 3 * 2**30
"""Added to the seed: far from the seeds of trainings, of what they learn from and of evaluations. Torch's generator
takes no more than the last 32 bits of a seed."""
CHAINS = 40
"""Blocks for the errors; the samples themselves are independent."""


@dataclass(frozen=True, kw_only=True)
class ExactSamples:
    """A reference that is exact.

    Attributes:
        coordinates: The samples.
        reduced_energy: Minus their log density.
        weights: All of them 1.
        chain: A block each.
        provenance: Where they come from.
    """

    coordinates: Float[np.ndarray, "frames dimensions"]
    reduced_energy: Float[np.ndarray, " frames"]
    weights: Float[np.ndarray, " frames"]
    chain: Int[np.ndarray, " frames"]
    provenance: Mapping[str, object]


def exact_samples(toy: Toy, n: int, *, seed: int) -> ExactSamples:
    """Draw them.

    Args:
        toy: The target.
        n: How many.
        seed: Seed of the samples.
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
