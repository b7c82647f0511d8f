"""Half turns of flat rotors: what takes an amide from trans to cis and back.

The barrier of an amide is some 30 kT at 300 K: no trajectory crosses it, and a ladder of temperatures hardly. A
proposal that turns one amide by half a turn goes round it. It is its own inverse and keeps the volume of internal
coordinates, so the Metropolis rule needs the densities alone.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.mcmc import Density, hmc, log_density_of, tempering

OFTEN = 2
"""Trajectories from one proposal to the next."""


class Flipped(NamedTuple):
    """Chains after a proposal for each, and with which probability each was accepted."""

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
    """Offer every chain half a turn of one of its flat rotors.

    Args:
        chains: The chains.
        flat: Torsions to choose from.
        generator: Draws torsions and acceptances.
        density: Its `log_p` is tempered, its `log_base` is not.
        beta: Inverse temperature of each chain.
    """
    x = chains.coordinates
    place = flat[torch.randint(len(flat), (len(x), 1), generator=generator)]
    there = x.scatter_add(1, place, torch.full_like(place, math.pi, dtype=x.dtype))
    parts = density.exact_parts(there)
    combination = tempering.tempered(beta)
    ratio = log_density_of(parts, combination) - log_density_of(chains.parts, combination)
    acceptance = ratio.nan_to_num(nan=-torch.inf).clamp(max=0.0).exp()
    taken = torch.rand(len(x), dtype=torch.float64, generator=generator) < acceptance
    return Flipped(hmc.choose(taken, hmc.State(there, parts), chains), acceptance)
