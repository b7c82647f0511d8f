"""Half turns of planar rotors, which take an amide from trans to cis and back.

The barrier of an amide is about 30 kT at 300 K: no trajectory crosses it, and a temperature ladder hardly does. A
proposal that rotates one amide by half a turn avoids it. It is its own inverse and preserves the volume of internal
coordinates, so the Metropolis rule needs only the densities.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.mcmc import Density, hmc, log_density_of, tempering

OFTEN = 2
"""Number of trajectories between proposals."""


class Flipped(NamedTuple):
    """Chains after one proposal each, and the acceptance probabilities."""

    chains: hmc.State
    acceptance: Float[Tensor, " chains"]


def flip(
    chains: hmc.State,
    flat: Int[Tensor, " flat"],
    generator: torch.Generator,
    *,
    density: Density,
    beta: Float[Tensor, " chains"],
) -> Flipped:
    """Propose to every chain half a turn of one of its planar rotors.

    Args:
        chains: Current chains.
        flat: Indices of the torsions to choose from.
        generator: Random generator for torsions and acceptances.
        density: Density whose `log_p` is tempered and whose `log_base` is not.
        beta: Inverse temperature of each chain.
    """
    x = chains.coordinates
    place = flat[torch.randint(len(flat), (len(x), 1), generator=generator, device=x.device)]
    there = x.scatter_add(1, place, torch.full_like(place, math.pi, dtype=x.dtype))
    parts = density.exact_parts(there)
    combination = tempering.tempered(beta)
    ratio = log_density_of(parts, combination) - log_density_of(chains.parts, combination)
    acceptance = ratio.nan_to_num(nan=-torch.inf).clamp(max=0.0).exp()
    taken = torch.rand(len(x), dtype=torch.float64, generator=generator, device=x.device) < acceptance
    return Flipped(hmc.choose(taken, hmc.State(there, parts), chains), acceptance)
