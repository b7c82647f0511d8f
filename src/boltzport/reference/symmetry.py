"""Turning methyl groups by a third: a symmetry of the energy that no chain needs to wait for.

Three equivalent hydrogens of a centre (CH3, NH3+) change places in a cycle, which keeps handedness. The energy does not
notice, so a frame with a random cycle in every such group is as good a sample as the frame itself, and the rotation of
methyls, with barriers of several kT, is mixed perfectly.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.molecule import Molecule

ALIKE = 1e-6
"""Relative change of the energy below which two orders of hydrogens are the same to the force field."""


def methyl_cycles(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> list[tuple[int, ...]]:
    """Triples of hydrogens that may change places in a cycle without any change of the energy.

    Args:
        molecule: The molecule with its groups of equivalent atoms.
        energy: Positions to energies; a group that it tells apart is left out.
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
    """The same molecules, every triple of hydrogens in one of its three orders at random."""
    cycled = positions.clone()
    for triple in triples:
        shift = torch.randint(3, (len(positions),), generator=generator)
        order = torch.tensor(triple)[(torch.arange(3) + shift[:, None]) % 3]
        cycled[:, list(triple)] = positions.gather(1, order[..., None].expand(-1, -1, 3))
    return cycled
