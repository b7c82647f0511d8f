"""Description of each coordinate: its kind, atoms, name and range."""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from boltzport.core.errors import InputError
from boltzport.molecules.zmatrix import Placement, ZMatrix


class Kind(StrEnum):
    """Kind of an internal coordinate."""

    BOND = "bond"
    ANGLE = "angle"
    TORSION = "torsion"


class Side(StrEnum):
    """Side of a torsion about a double bond."""

    CIS = "cis"
    TRANS = "trans"


class Column(NamedTuple):
    """One internal coordinate.

    Attributes:
        kind: Bond (nm), angle or torsion (radian).
        name: Name of the torsion if it has one (`ALA2.phi`), else the atoms (`ALA2.N-ALA2.CA`).
        atoms: Two, three or four atoms; the last one is placed by this coordinate.
        sibling: Whether this is the torsion from the first child of a centre to another child.
        sign: Fixed sign of the torsion, if it describes the chirality of a centre; 0 if both signs are allowed.
        lower: Smallest value.
        upper: Largest value. A torsion with range (-pi, pi) is a circle; one about a double bond keeps its side, with
            the range (-pi/2, pi/2) if it is cis and (pi/2, 3 pi/2) if it is trans.
    """

    kind: Kind
    name: str
    atoms: tuple[int, ...]
    sibling: bool
    sign: int
    lower: float
    upper: float

    @property
    def circular(self) -> bool:
        """Whether the two ends of the range are the same point."""
        return self.kind is Kind.TORSION and self.upper - self.lower > 1.5 * math.pi


def bond_of(row: Placement) -> tuple[int, int]:
    """Bond that places the atom of a row (not the root), lower index first."""
    assert row.centre is not None
    return min(row.centre, row.atom), max(row.centre, row.atom)


def columns(
    zmatrix: ZMatrix,
    *,
    constrained: Mapping[tuple[int, int], float],
    signs: Mapping[int, int],
    sides: Mapping[int, Side] | None = None,
) -> tuple[Column, ...]:
    """Coordinates of a z-matrix: free bonds, then angles, then torsions, each in placement order.

    Args:
        zmatrix: Z-matrix of the molecule.
        constrained: Constrained bonds, by pair of atoms, lower index first.
        signs: Fixed sign (+1 or -1) of the torsion that places an atom, by atom.
        sides: Fixed side of the torsion about a double bond that places an atom, by atom.

    Raises:
        InputError: A constraint is not a bond of the z-matrix, so no coordinate can be removed for it.
    """
    bonds = {bond_of(row): row for row in zmatrix.rows[1:]}
    for pair in constrained:
        if pair not in bonds:
            first, second = (zmatrix.labels[atom] for atom in pair)
            raise InputError(
                f"the force field constrains the distance {first}-{second}, which is not a bond of the internal "
                "coordinates; expected constraints on bonds to hydrogen at most (constraints: none or hbonds)"
            )
    found = [_column(zmatrix, Kind.BOND, row, 0) for pair, row in bonds.items() if pair not in constrained]
    found += [_column(zmatrix, Kind.ANGLE, row, 0) for row in zmatrix.rows[2:]]
    for row in zmatrix.rows[3:]:
        column = _column(zmatrix, Kind.TORSION, row, signs.get(row.atom, 0))
        side = (sides or {}).get(row.atom)
        if side is not None:
            middle = 0.0 if side is Side.CIS else math.pi
            column = column._replace(lower=middle - 0.5 * math.pi, upper=middle + 0.5 * math.pi)
        found.append(column)
    return tuple(found)


def _column(zmatrix: ZMatrix, kind: Kind, row: Placement, sign: int) -> Column:
    count = {Kind.BOND: 2, Kind.ANGLE: 3, Kind.TORSION: 4}[kind]
    atoms = tuple(atom for atom in (row.reference, row.axis, row.centre, row.atom)[-count:] if atom is not None)
    name = zmatrix.names.get(row.atom) if kind is Kind.TORSION else None
    lower, upper = {Kind.BOND: (0.0, math.inf), Kind.ANGLE: (0.0, math.pi), Kind.TORSION: (-math.pi, math.pi)}[kind]
    return Column(
        kind=kind,
        name=name or "-".join(zmatrix.labels[atom] for atom in atoms),
        atoms=atoms,
        sibling=row.sibling and kind is Kind.TORSION,
        sign=sign,
        lower=0.0 if sign > 0 else lower,
        upper=0.0 if sign < 0 else upper,
    )
