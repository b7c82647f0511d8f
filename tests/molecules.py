"""Molecules that several tests need."""

from functools import cache
from typing import NamedTuple

from hypothesis import strategies as st

from boltzport.molecules import LETTERS, SYSTEMS, Molecule, Topology, plain_topology

PAPER = [entry.name for entry in SYSTEMS]
CAPPED = [f"ACE-{name}-NME" for name in sorted(LETTERS.values())]

cached_load = cache(Molecule)


def molecule(name: str) -> Molecule:
    """A molecule with the defaults; built once for a test process."""
    return cached_load(name)


class Graph(NamedTuple):
    """A molecule without positions."""

    elements: list[int]
    bonds: set[tuple[int, int]]

    def topology(self) -> Topology:
        return plain_topology(self.elements, self.bonds)


@st.composite
def connected_graphs(draw: st.DrawFn, *, largest: int = 14) -> Graph:
    """Random trees of carbons and hydrogens, some with rings."""
    n = draw(st.integers(3, largest))
    parents = [draw(st.integers(max(0, i - 4), i - 1)) for i in range(1, n)]
    bonds = {(parent, child) for child, parent in enumerate(parents, start=1)}
    for _ in range(draw(st.integers(0, 2))):
        first, second = sorted(draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True)))
        bonds.add((first, second))
    order = draw(st.permutations(range(n)))
    bonds = {(order[first], order[second]) for first, second in bonds}
    degree = [sum(atom in bond for bond in bonds) for atom in range(n)]
    elements = [1 if degree[atom] == 1 and draw(st.booleans()) else 6 for atom in range(n)]
    return Graph(elements, bonds)
