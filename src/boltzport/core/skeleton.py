"""A rigid skeleton: how torsions place some atoms of a molecule if all other coordinates are at their centres.

A flow uses it for its features. A contact between distant parts of a molecule is a simple function of their distance,
and a complicated one of the torsions in between.
"""

from typing import Any, NamedTuple

FIXED = -1
"""Coordinate of a centre whose children do not turn."""


class Child(NamedTuple):
    """An atom attached to a centre.

    Attributes:
        atom: Index of the atom.
        bond: Distance to the centre, in nm.
        angle: Angle axis-centre-atom, in radian.
        azimuth: Angle about the axis, in radian, to which the coordinate of the centre is added.
    """

    atom: int
    bond: float
    angle: float
    azimuth: float


class Centre(NamedTuple):
    """An atom with its children, and the two atoms that orient it.

    Attributes:
        reference: Atom from which the azimuth is measured.
        axis: Atom at the other end of the bond about which the children turn.
        centre: The atom itself.
        coordinate: Index of the coordinate that turns the children, or `FIXED`.
        children: The attached atoms.
    """

    reference: int
    axis: int
    centre: int
    coordinate: int
    children: tuple[Child, ...]


class Skeleton(NamedTuple):
    """The atoms of a skeleton, numbered in the order of their placement.

    Attributes:
        first: Positions of the first three atoms, in nm.
        centres: Centres, each after those that place its three atoms.
        sites: Atoms whose positions are used as features.
        pairs: Pairs of sites whose distances are used as features.
    """

    first: tuple[tuple[float, float, float], ...]
    centres: tuple[Centre, ...]
    sites: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def to_json(self) -> list[Any]:
        """Plain lists."""
        centres = [[*centre[:-1], [list(child) for child in centre.children]] for centre in self.centres]
        return [[list(position) for position in self.first], centres, list(self.sites), [list(p) for p in self.pairs]]

    @classmethod
    def from_json(cls, record: list[Any]) -> "Skeleton":
        """Skeleton from the output of `to_json`."""
        first, centres, sites, pairs = record
        return cls(
            tuple((float(x), float(y), float(z)) for x, y, z in first),
            tuple(Centre(a, b, c, i, tuple(Child(*child) for child in rest)) for a, b, c, i, rest in centres),
            tuple(sites),
            tuple((a, b) for a, b in pairs),
        )
