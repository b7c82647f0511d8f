"""Atoms that are equivalent in the bond graph, and groups of them whose order is fixed by chirality."""

from typing import NamedTuple

from boltzport.molecules.topology import Topology

_SYMBOLS = {6: "C", 7: "N", 8: "O", 15: "P", 16: "S"}


class PermutationGroup(NamedTuple):
    """Equivalent neighbours of a tetrahedral centre.

    Attributes:
        centre: The centre.
        kind: `CH3`, `CH2`, `NH3`, ... for hydrogens, `methyls` and the like for heavier branches.
        atoms: The equivalent neighbours, in increasing order.
    """

    centre: int
    kind: str
    atoms: tuple[int, ...]


def equivalence_classes(topology: Topology) -> tuple[int, ...]:
    """Equivalence class of each atom: two atoms share one if no walk along bonds distinguishes them (Weisfeiler-Leman).

    Example:
        >>> from boltzport.molecules.topology import plain_topology
        >>> methanol = plain_topology([6, 8, 1, 1, 1, 1], [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)])
        >>> classes = equivalence_classes(methanol)
        >>> classes[2] == classes[3] == classes[4], classes[2] == classes[5]
        (True, False)
    """
    classes = _relabel([(element,) for element in topology.elements])
    while True:
        refined = _relabel(
            [
                (classes[atom], *sorted(classes[other] for other in topology.neighbours[atom]))
                for atom in range(topology.n_atoms)
            ]
        )
        if len(set(refined)) == len(set(classes)):
            return refined
        classes = refined


def permutation_groups(topology: Topology) -> tuple[PermutationGroup, ...]:
    """Groups of equivalent neighbours at centres with four neighbours; each group is a repeated branch."""
    classes = equivalence_classes(topology)
    groups = []
    for centre, neighbours in enumerate(topology.neighbours):
        if len(neighbours) != 4:
            continue
        for label in sorted({classes[atom] for atom in neighbours}):
            atoms = tuple(atom for atom in neighbours if classes[atom] == label)
            if len(atoms) > 1:
                groups.append(PermutationGroup(centre, _kind(topology, centre, atoms), atoms))
    return tuple(groups)


def _kind(topology: Topology, centre: int, atoms: tuple[int, ...]) -> str:
    if topology.is_hydrogen(atoms[0]):
        return f"{_SYMBOLS.get(topology.elements[centre], 'X')}H{len(atoms)}"
    hydrogens = sum(topology.is_hydrogen(other) for other in topology.neighbours[atoms[0]])
    return "methyls" if topology.elements[atoms[0]] == 6 and hydrogens == 3 else "branches"


def _relabel(keys: list[tuple[int, ...]]) -> tuple[int, ...]:
    numbers = {key: i for i, key in enumerate(sorted(set(keys)))}
    return tuple(numbers[key] for key in keys)
