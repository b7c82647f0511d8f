"""Atoms, their labels and their bonds: the graph that all coordinates are built on."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import openmm.app

HYDROGEN = 1


@dataclass(frozen=True, kw_only=True)
class Topology:
    """A molecule as a labelled graph, in the atom order of its source.

    Attributes:
        elements: Atomic number of each atom.
        names: Name of each atom, such as `CA`.
        residues: Index of the residue of each atom, from 0.
        residue_names: Name of each residue, such as `ALA`.
        residue_labels: Unique label of each residue, such as `ALA2`.
        bonds: Pairs of bonded atoms, lower index first, sorted.
    """

    elements: tuple[int, ...]
    names: tuple[str, ...]
    residues: tuple[int, ...]
    residue_names: tuple[str, ...]
    residue_labels: tuple[str, ...]
    bonds: tuple[tuple[int, int], ...]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.elements)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """Bonded atoms of each atom, in increasing order."""
        bonded: list[list[int]] = [[] for _ in self.elements]
        for first, second in self.bonds:
            bonded[first].append(second)
            bonded[second].append(first)
        return tuple(tuple(sorted(atoms)) for atoms in bonded)

    def is_hydrogen(self, atom: int) -> bool:
        """Whether the atom is a hydrogen."""
        return self.elements[atom] == HYDROGEN

    def label(self, atom: int) -> str:
        """Unique name of an atom in the molecule, such as `ALA2.CA`."""
        return f"{self.residue_labels[self.residues[atom]]}.{self.names[atom]}"

    def find(self, residue: int, name: str) -> int | None:
        """Index of the atom with that name in that residue, or None."""
        return self._by_name.get((residue, name))

    def molecules(self) -> list[list[int]]:
        """Connected components, each a sorted list of atoms, in order of their first atom."""
        seen: set[int] = set()
        components = []
        for start in range(self.n_atoms):
            if start in seen:
                continue
            component = {start}
            frontier = [start]
            while frontier:
                for atom in self.neighbours[frontier.pop()]:
                    if atom not in component:
                        component.add(atom)
                        frontier.append(atom)
            seen |= component
            components.append(sorted(component))
        return components

    @cached_property
    def _by_name(self) -> dict[tuple[int, str], int]:
        return {(residue, name): i for i, (residue, name) in enumerate(zip(self.residues, self.names, strict=True))}


def plain_topology(elements: Iterable[int], bonds: Iterable[tuple[int, int]]) -> Topology:
    """Topology of a molecule without residues; atoms are named by index.

    Example:
        >>> water = plain_topology([8, 1, 1], [(0, 1), (0, 2)])
        >>> water.label(0), water.neighbours[0]
        ('MOL1.A0', (1, 2))
    """
    numbers = tuple(elements)
    return Topology(
        elements=numbers,
        names=tuple(f"A{i}" for i in range(len(numbers))),
        residues=(0,) * len(numbers),
        residue_names=("MOL",),
        residue_labels=("MOL1",),
        bonds=_sorted_bonds(bonds),
    )


def from_openmm(topology: openmm.app.Topology) -> Topology:
    """Convert an OpenMM topology; if there are several chains, residue labels include the chain."""
    atoms = list(topology.atoms())
    residues = list(topology.residues())
    several = topology.getNumChains() > 1
    return Topology(
        # A virtual site has no element; 0 distinguishes it from every real atom.
        elements=tuple(atom.element.atomic_number if atom.element is not None else 0 for atom in atoms),
        names=tuple(atom.name for atom in atoms),
        residues=tuple(atom.residue.index for atom in atoms),
        residue_names=tuple(residue.name for residue in residues),
        residue_labels=_unique(
            f"{residue.chain.id + ':' if several else ''}{residue.name}{residue.id}{residue.insertionCode.strip()}"
            for residue in residues
        ),
        bonds=_sorted_bonds((bond[0].index, bond[1].index) for bond in topology.bonds()),
    )


def _unique(labels: Iterable[str]) -> tuple[str, ...]:
    """Number repeated labels: files may number residues arbitrarily."""
    seen: Counter[str] = Counter()
    unique = []
    for label in labels:
        seen[label] += 1
        unique.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return tuple(unique)


def _sorted_bonds(bonds: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({(min(pair), max(pair)) for pair in bonds}))
