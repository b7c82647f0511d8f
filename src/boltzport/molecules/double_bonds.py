"""Double bonds: the torsion about one keeps its side, cis or trans, as in the reference structure.

In the z-matrix the first child of a centre turns everything that is attached to it about the axis. If the axis is a
double bond, its torsion stays within a quarter of a turn of the reference: the other half of the circle is another
molecule, or the same one with equivalent atoms exchanged.
"""

from collections.abc import Collection

import numpy as np
from jaxtyping import Float

from boltzport.molecules.columns import Side
from boltzport.molecules.zmatrix import ZMatrix


def double_bond_sides(
    zmatrix: ZMatrix, positions: Float[np.ndarray, "atoms 3"], bonds: Collection[tuple[int, int]]
) -> dict[int, Side]:
    """Side of the torsion about each double bond, by the atom that the torsion places.

    Args:
        zmatrix: Z-matrix of the molecule.
        positions: Reference structure in nm.
        bonds: The double bonds, lower index first.
    """
    found = {}
    for row in zmatrix.rows[3:]:
        reference, axis, centre = row.torsion
        if row.sibling or (min(axis, centre), max(axis, centre)) not in bonds:
            continue
        along = positions[centre] - positions[axis]
        left = np.cross(positions[reference] - positions[axis], along)
        right = np.cross(positions[row.atom] - positions[centre], along)
        found[row.atom] = Side.CIS if left @ right > 0.0 else Side.TRANS
    return found
