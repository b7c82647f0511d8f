"""The torsions that turn: which of them tell conformers apart."""

from typing import NamedTuple

from boltzport.molecules import Column, Molecule, equivalence_classes
from boltzport.targets.boltzmann.stiffness import flat_rotors, turning


class Rotors(NamedTuple):
    """Torsions about bonds that turn, one for each bond.

    Attributes:
        telling: Those whose values are different conformers.
        symmetric: Those that turn a group of equivalent atoms, such as a methyl or a phenyl.
    """

    telling: tuple[int, ...]
    symmetric: tuple[int, ...]


def rotors(molecule: Molecule) -> Rotors:
    """The torsions of a molecule that turn, by their place among its coordinates."""
    classes = equivalence_classes(molecule.topology)

    def is_symmetric(column: Column) -> bool:
        ends = column.atoms[1:3], column.atoms[2:0:-1]
        return any(_alike(molecule, classes, axis, centre) for axis, centre in ends)

    columns = molecule.coordinates.columns
    found = sorted({*turning(molecule), *flat_rotors(molecule)})
    return Rotors(
        telling=tuple(place for place in found if not is_symmetric(columns[place])),
        symmetric=tuple(place for place in found if is_symmetric(columns[place])),
    )


def _alike(molecule: Molecule, classes: tuple[int, ...], axis: int, centre: int) -> bool:
    others = [atom for atom in molecule.topology.neighbours[centre] if atom != axis]
    return len(others) > 1 and len({classes[atom] for atom in others}) == 1
