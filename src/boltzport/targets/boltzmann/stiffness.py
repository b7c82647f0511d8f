"""Which internal coordinates are stiff, and how they fluctuate in the harmonic approximation."""

import math
from collections.abc import Callable, Collection
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.units import thermal_energy
from boltzport.molecules import Column, Kind, Molecule

FLAT = 0.2
"""Sine of a torsion below which four atoms count as planar."""
LARGE_RING = 8
"""Number of bonds of a ring that closes only if all its torsions change together; smaller ones pucker."""
PUCKER = 0.5
"""Smallest width, in radian, of a torsion of a ring that is not planar: its other pucker is 1.2 radian away."""


class Stiffness(NamedTuple):
    """The stiff coordinates of a molecule.

    Bonds, angles, the torsions of siblings, and torsions about bonds that do not rotate are stiff. The last are
    torsions in rings, about double bonds, and between two planar centres, as in an amide.

    Attributes:
        indices: Indices of the stiff coordinates.
        covariance: Their covariance kT H^-1, with H the second derivatives at the reference, other coordinates fixed.
    """

    indices: list[int]
    covariance: Float[np.ndarray, "stiff stiff"]


def stiffness(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Stiffness:
    """The stiff coordinates of a molecule and their covariance.

    Args:
        molecule: Molecule with its reference structure.
        energy: Energy in kJ/mol of positions in nm, differentiable.
    """
    rings, flat = _ring_bonds(molecule), _flat_centres(molecule)
    pairs = with_reference(molecule)
    free = _free_rotors(molecule)
    indices = [i for i, (column, value) in enumerate(pairs) if _is_stiff(column, value, rings, flat, free)]
    return Stiffness(indices, _covariance(molecule, energy, indices))


def turning(molecule: Molecule) -> list[int]:
    """Torsions that turn the atoms beyond a bond, and are not stiff."""
    rings, flat, free = _ring_bonds(molecule), _flat_centres(molecule), _free_rotors(molecule)
    return [
        i
        for i, (column, value) in enumerate(with_reference(molecule))
        if column.circular and not column.sibling and not _is_stiff(column, value, rings, flat, free)
    ]


def large_ring_torsions(molecule: Molecule) -> list[int]:
    """Torsions about the bonds of large rings: they are kept near those of the reference structure."""
    large = {bond for bond, size in _ring_bonds(molecule).items() if size >= LARGE_RING}
    return [
        i
        for i, column in enumerate(molecule.coordinates.columns)
        if column.circular and not column.sibling and frozenset(column.atoms[1:3]) in large
    ]


def flat_rotors(molecule: Molecule) -> list[int]:
    """Torsions about bonds between two planar centres outside of rings, as in amides.

    The amides of a small molecule are among them even if their nitrogen is a shallow pyramid, as MMFF94 has it.
    """
    rings, flat, free = _ring_bonds(molecule), _flat_centres(molecule), _free_rotors(molecule)
    amides = {frozenset(bond) for bond in molecule.stereo.amides}
    return [
        i
        for i, column in enumerate(molecule.coordinates.columns)
        if column.circular
        and not column.sibling
        and frozenset(column.atoms[1:3]) not in rings
        and (
            frozenset(column.atoms[1:3]) in amides
            or (set(column.atoms[1:3]) <= flat and frozenset(column.atoms[1:3]) not in free)
        )
    ]


def with_reference(molecule: Molecule) -> list[tuple[Column, float]]:
    """Every coordinate with its value in the reference structure."""
    positions = torch.from_numpy(molecule.positions)[None]
    values = molecule.coordinates.to_internal(positions).coordinates[0].tolist()
    return list(zip(molecule.coordinates.columns, values, strict=True))


def _is_stiff(
    column: Column, value: float, rings: Collection[frozenset[int]], flat: set[int], free: set[frozenset[int]]
) -> bool:
    if column.kind is not Kind.TORSION:
        return True
    if column.sibling:
        # A pyramid with three neighbours (an amine) can invert.
        return column.sign != 0 or abs(math.sin(value)) < FLAT
    if not column.circular:
        return True
    _, axis, centre, _ = column.atoms
    bond = frozenset((axis, centre))
    return bond in rings or (axis in flat and centre in flat and bond not in free)


def _free_rotors(molecule: Molecule) -> set[frozenset[int]]:
    """Bonds that turn although both ends may be planar, as between two rings: a small molecule names them."""
    return {frozenset(bond) for bond in molecule.stereo.rotors}


def _ring_bonds(molecule: Molecule) -> dict[frozenset[int], int]:
    """Bonds that lie in a ring, with the number of bonds of the smallest one."""
    neighbours = molecule.topology.neighbours
    found = {}
    for first, second in molecule.topology.bonds:
        seen, frontier, bonds = {first}, {first}, 1
        while frontier and second not in seen:
            frontier = {
                other
                for atom in frontier
                for other in neighbours[atom]
                if other not in seen and {atom, other} != {first, second}
            }
            seen |= frontier
            bonds += 1
        if second in seen:
            found[frozenset((first, second))] = bonds
    return found


def _flat_centres(molecule: Molecule) -> set[int]:
    """Atoms that lie in a plane with their three neighbours."""
    flat = set()
    for atom, others in enumerate(molecule.topology.neighbours):
        if len(others) == 3:
            u, v, w = (molecule.positions[other] - molecule.positions[atom] for other in others)
            volume = abs(np.dot(u, np.cross(v, w)))
            if volume < FLAT * np.linalg.norm(u) * np.linalg.norm(v) * np.linalg.norm(w):
                flat.add(atom)
    return flat


def _covariance(molecule: Molecule, energy: Callable[[Tensor], Tensor], stiff: list[int]) -> np.ndarray:
    """Covariance of the stiff coordinates, the others fixed, in the harmonic approximation at the reference.

    Second derivatives are finite differences of first ones: 2 evaluations per stiff coordinate.
    """
    map_, kt = molecule.coordinates, thermal_energy(molecule.temperature)
    reference = map_.to_internal(torch.from_numpy(molecule.positions)[None]).coordinates
    steps = torch.tensor([1e-5 if map_.columns[i].kind is Kind.BOND else 1e-4 for i in stiff], dtype=torch.float64)
    shifts = torch.zeros(len(stiff), map_.dimension, dtype=torch.float64)
    shifts[range(len(stiff)), stiff] = steps
    points = torch.cat([reference + shifts, reference - shifts]).requires_grad_()
    with torch.enable_grad():
        (gradients,) = torch.autograd.grad(energy(map_.to_cartesian(points).positions).sum(), points)
    ahead, behind = gradients[:, stiff].chunk(2)
    hessian = ((ahead - behind) / (2 * steps[:, None]) / kt).numpy()
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    # A direction that is nearly free, or has negative curvature at the reference, gets a small stiffness.
    values = np.maximum(values, 1e-3 * np.median(values))
    return np.asarray((vectors / values) @ vectors.T)
