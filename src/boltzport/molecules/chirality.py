"""Chirality: every tetrahedral centre keeps the sign that it has in the reference structure.

Seen along the axis b -> c of a centre, its children have a fixed order around it. The torsion from the first
child to each other child has a sign, which can change only if the centre passes through a plane. No force field
allows this at any temperature of interest, so the sign halves the torsion's range. This one rule covers alpha
carbons, the side chains of ILE and THR, the two methyls of VAL and LEU, and the order of the hydrogens in CH3,
CH2 and NH3+. Centres with fewer than four neighbours (a carboxylate, an amide, a ring of PHE, an amine) are planar
or invert easily and are left free, except those that a small molecule names, such as its sulfoxides.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.molecules.permutation import equivalence_classes
from boltzport.molecules.topology import Topology
from boltzport.molecules.zmatrix import ZMatrix

PLANAR = 0.2
"""Sine of a sibling torsion (11.5 degrees from the plane) below which a centre has no chirality to keep."""


class Centre(NamedTuple):
    """A tetrahedral centre.

    Attributes:
        atom: The centre.
        axis: Its axis atom in the z-matrix.
        first: Its first child.
        signs: Sign of the torsion first-axis-atom-sibling for each sibling of the first child.
        chiral: Whether its four neighbours all differ, so that its mirror image is a different molecule.
    """

    atom: int
    axis: int
    first: int
    signs: dict[int, int]
    chiral: bool


def tetrahedral_centres(
    topology: Topology,
    zmatrix: ZMatrix,
    positions: Float[np.ndarray, "atoms 3"],
    *,
    pyramids: Collection[int] = (),
) -> tuple[Centre, ...]:
    """Centres with four neighbours, with their signs at the given positions.

    Args:
        topology: Atoms and bonds.
        zmatrix: Z-matrix of the molecule.
        positions: Reference structure in nm.
        pyramids: Centres with three neighbours that keep their sign too.
    """
    classes = equivalence_classes(topology)
    siblings: dict[tuple[int, int, int], dict[int, int]] = {}
    for row in zmatrix.rows:
        if not row.sibling:
            continue
        reference, axis, centre = row.torsion
        if len(topology.neighbours[centre]) != 4 and centre not in pyramids:
            continue
        sine = _sibling_sine(positions, reference, axis, centre, row.atom)
        if abs(sine) > PLANAR:
            key = centre, axis, reference
            siblings.setdefault(key, {})[row.atom] = 1 if sine > 0 else -1
    found = []
    for (atom, axis, first), signs in siblings.items():
        chiral = len({classes[other] for other in topology.neighbours[atom]}) == len(topology.neighbours[atom])
        found.append(Centre(atom, axis, first, signs, chiral))
    return tuple(sorted(found))


def _sibling_sine(positions: np.ndarray, first: int, axis: int, centre: int, sibling: int) -> float:
    """Sine of the torsion first-axis-centre-sibling."""
    along = positions[centre] - positions[axis]
    u = np.cross(along, positions[first] - positions[centre])
    v = np.cross(along, positions[sibling] - positions[centre])
    normal = np.cross(u, v)
    scale = np.linalg.norm(along) * np.linalg.norm(u) * np.linalg.norm(v)
    return float(normal @ along / scale) if scale > 0 else 0.0
