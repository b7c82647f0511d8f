"""Rotation of methyl groups by a third of a turn: a symmetry of the energy that can be sampled exactly.

Three equivalent hydrogens of a centre (CH3, NH3+) are permuted cyclically, which keeps the chirality. The energy does
not change, so a frame with a random cycle in every such group is as good a sample as the frame itself, and the rotation
of methyls, with barriers of several kT, mixes perfectly.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.molecules import Molecule

ALIKE = 1e-6
"""Relative change of the energy below which two orders of hydrogens are equivalent in the force field."""


def methyl_cycles(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> list[tuple[int, ...]]:
    """Triples of hydrogens that can be permuted cyclically without a change of the energy.

    Args:
        molecule: The molecule with its groups of equivalent atoms.
        energy: Maps positions to energies; groups whose permutation changes the energy are left out.
    """
    topology = molecule.topology
    triples = [
        group.atoms
        for group in molecule.permutation_groups
        if len(group.atoms) == 3 and topology.is_hydrogen(group.atoms[0])
    ]
    positions = torch.from_numpy(molecule.positions)
    noise = torch.randn(positions.shape, dtype=positions.dtype, generator=torch.Generator().manual_seed(0))
    here = positions + 0.003 * noise
    cycled = []
    for triple in triples:
        there = here.clone()
        there[list(triple)] = here[list(triple[1:] + triple[:1])]
        cycled.append(there)
    with torch.no_grad():
        energies = energy(torch.stack([here, *cycled]))
    same = (energies[1:] - energies[0]).abs() < ALIKE * energies[0].abs().clamp_min(1.0)
    return [triple for triple, alike in zip(triples, same.tolist(), strict=True) if alike]


def cycle_randomly(
    positions: Float[Tensor, "batch atoms 3"], triples: list[tuple[int, ...]], generator: torch.Generator
) -> Float[Tensor, "batch atoms 3"]:
    """Put every triple of hydrogens in one of its three cyclic orders at random."""
    cycled = positions.clone()
    for triple in triples:
        device = positions.device
        shift = torch.randint(3, (len(positions),), generator=generator, device=device)
        places = torch.tensor(triple, device=device)
        order = places[(torch.arange(3, device=device) + shift[:, None]) % 3]
        cycled.index_copy_(1, places, positions.gather(1, order[..., None].expand(-1, -1, 3)))
    return cycled
