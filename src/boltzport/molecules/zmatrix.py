"""A z-matrix for any connected molecule: the three atoms that place each atom.

The molecule is covered by a spanning tree. Three atoms define the frame: a root r and two of its
neighbours, s and t. Every other atom d is a child of a *centre* c, and is placed by the distance c-d,
by the angle b-c-d to the centre's *axis* atom b, and by a torsion about the axis b -> c:

    first child of c    torsion a-b-c-d, a the axis atom of b: the rotation of everything attached to c
    its siblings        torsion d1-b-c-d to the first child d1: stiff, with a sign that encodes chirality

The axis atom of a centre is its parent in the tree; r and s are each other's axis. For the centre s the
atom a is t, and for the centre r the first child is t, whose torsion is 0 by definition.

In a peptide the tree starts at the N-terminus and follows the backbone and the side chains, so that
phi, psi, omega and chi are torsions of first children; rings are cut at bonds outside the tree.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from boltzport.core.errors import InputError
from boltzport.molecules.topology import Topology
from boltzport.molecules.torsions import NamedTorsion, named_torsions


class Placement(NamedTuple):
    """One row of a z-matrix: an atom and the atoms that place it.

    Attributes:
        atom: The atom to place.
        centre: Bonded atom; None for the root.
        axis: Atom of the angle axis-centre-atom; None for the first two atoms.
        reference: First atom of the torsion reference-axis-centre-atom; None for the first three.
        sibling: Whether the reference is the first child of the same centre.
        depth: Distance from the root in the tree; atoms at the same depth do not depend on each other.
    """

    atom: int
    centre: int | None
    axis: int | None
    reference: int | None
    sibling: bool
    depth: int

    @property
    def torsion(self) -> tuple[int, int, int]:
        """Reference, axis and centre of a row with a torsion, which is any but the first three."""
        assert self.reference is not None
        assert self.axis is not None
        assert self.centre is not None
        return self.reference, self.axis, self.centre


@dataclass(frozen=True, kw_only=True)
class ZMatrix:
    """Rows in placement order, and the names of the named torsions.

    Attributes:
        rows: One row per atom: root, second, third, then by depth; at the same depth, atoms with children
            come before those without.
        labels: Label of each atom, in the molecule's atom order.
        names: Name of a row's torsion, such as `ALA2.phi`, by the placed atom.
    """

    rows: tuple[Placement, ...]
    labels: tuple[str, ...]
    names: Mapping[int, str]

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.rows)


def build_zmatrix(topology: Topology, *, uncut: Collection[tuple[int, int]] = ()) -> ZMatrix:
    """Build the z-matrix of a connected molecule of at least three atoms.

    Args:
        topology: Atoms and bonds.
        uncut: Bonds at which no ring is cut, so that the torsion about them is a coordinate.

    Raises:
        InputError: The molecule has fewer than three atoms, or is not connected.
    """
    if topology.n_atoms < 3:
        raise InputError(f"expected a molecule of at least 3 atoms, got {topology.n_atoms}")
    pieces = topology.molecules()
    if len(pieces) > 1:
        raise InputError(
            f"expected one molecule, got {len(pieces)} that no bond connects (one starts at "
            f"{topology.label(pieces[0][0])}, another at {topology.label(pieces[1][0])}); "
            "keep one of them, or add the missing bonds as CONECT records"
        )
    torsions = named_torsions(topology)
    root, second, third = _frame_atoms(topology)
    frame_bonds = {frozenset((root, second)), frozenset((root, third))}
    chain_bonds = _chain_bonds(torsions) | frame_bonds | {frozenset(bond) for bond in uncut}
    parents = _with_bonds(_spanning_tree(topology, root, chain_bonds), uncut, root, frame_bonds)
    children = _ordered_children(topology, parents, torsions)
    for atom in (third, second):
        children[root].remove(atom)
        children[root].insert(0, atom)
    rows = _place(children, root)
    labels = tuple(topology.label(atom) for atom in range(topology.n_atoms))
    return ZMatrix(rows=rows, labels=labels, names=_torsion_names(rows, torsions))


def _frame_atoms(topology: Topology) -> tuple[int, int, int]:
    """Root, second and third atom: the start of the main chain, or else the middle of the molecule."""
    for before, name, after in (("CH3", "C", "N"), ("N", "CA", "C")):
        start = topology.find(0, name)
        if start is None:
            continue
        bonded = {topology.names[atom]: atom for atom in topology.neighbours[start]}
        if before in bonded and after in bonded:
            return start, bonded[before], bonded[after]
    # Among three or more connected atoms, at least one has two neighbours.
    inside = [atom for atom in range(topology.n_atoms) if len(topology.neighbours[atom]) > 1]
    root = min(inside, key=lambda atom: (topology.is_hydrogen(atom), _eccentricity(topology, atom), atom))
    second, third = sorted(
        topology.neighbours[root],
        key=lambda atom: (len(topology.neighbours[atom]) == 1, topology.is_hydrogen(atom), atom),
    )[:2]
    return root, second, third


def _eccentricity(topology: Topology, start: int) -> int:
    """Largest number of bonds from an atom to any other."""
    distance = {start: 0}
    queue = [start]
    for atom in queue:
        for other in topology.neighbours[atom]:
            if other not in distance:
                distance[other] = distance[atom] + 1
                queue.append(other)
    return max(distance.values())


def _chain_bonds(torsions: Sequence[NamedTorsion]) -> set[frozenset[int]]:
    """Bonds of the backbone and the side chains, which the tree must follow if a ring offers another path."""
    return {frozenset(pair) for torsion in torsions for pair in zip(torsion.atoms, torsion.atoms[1:], strict=False)}


def _spanning_tree(topology: Topology, root: int, chain_bonds: set[frozenset[int]]) -> dict[int, int]:
    """Parent of each atom except the root, on the path with the fewest bonds off the chain, then the fewest bonds.

    Breadth-first search keeps paths short, so that a ring closes between two short arms instead of at the end
    of one long lever. The chain bonds make the ring of proline close at N-CD and not at CB-CG.
    """
    best: dict[int, tuple[int, int, int]] = {root: (0, 0, root)}
    parents: dict[int, int] = {}
    done: set[int] = set()
    queue = [(0, 0, root)]
    while queue:
        off_chain, hops, atom = heapq.heappop(queue)
        if atom in done:
            continue
        done.add(atom)
        for other in topology.neighbours[atom]:
            cost = (off_chain + (frozenset((atom, other)) not in chain_bonds), hops + 1, other)
            if other not in done and (other not in best or cost < best[other]):
                best[other] = cost
                parents[other] = atom
                heapq.heappush(queue, cost)
    return parents


def _with_bonds(
    parents: dict[int, int], bonds: Collection[tuple[int, int]], root: int, frame_bonds: set[frozenset[int]]
) -> dict[int, int]:
    """The tree with some bonds in it: where two arms of a ring meet at one of them, one arm gives up its last bond.

    A bond of the frame is not given up: the double bond of a ring of three atoms is then not in the tree.
    """
    needed = frame_bonds | {frozenset(bond) for bond in bonds}
    for first, second in sorted(bonds):
        if parents.get(first) == second or parents.get(second) == first:
            continue
        for parent, child in ((first, second), (second, first)):
            above = parent
            while above not in (root, child):
                above = parents[above]
            if above == root and child != root and frozenset((child, parents[child])) not in needed:
                parents = parents | {child: parent}
                break
    return parents


def _ordered_children(
    topology: Topology, parents: dict[int, int], torsions: Sequence[NamedTorsion]
) -> dict[int, list[int]]:
    """Children of each atom: first those that end a named torsion, then heavy atoms, then hydrogens."""
    rank = {}
    for torsion in torsions:
        for end in (torsion.atoms, torsion.atoms[::-1]):
            # Only the direction away from the root is a placement; the backbone comes before chi.
            if parents.get(end[3]) == end[2] and parents.get(end[2]) == end[1]:
                rank[end[3]] = 1 if ".chi" in torsion.name else 0
    children: dict[int, list[int]] = {atom: [] for atom in range(topology.n_atoms)}
    for atom, parent in parents.items():
        children[parent].append(atom)
    for atoms in children.values():
        atoms.sort(key=lambda atom: (rank.get(atom, 2), topology.is_hydrogen(atom), atom))
    return children


def _place(children: dict[int, list[int]], root: int) -> tuple[Placement, ...]:
    """Rows of the tree, breadth first; the root's first two children are the second and third atom."""
    second, third = children[root][:2]
    axis = {root: second} | dict.fromkeys(children[root], root)
    rows = [
        Placement(root, None, None, None, sibling=False, depth=0),
        Placement(second, root, None, None, sibling=False, depth=1),
        Placement(third, root, second, None, sibling=False, depth=1),
    ]
    rows += [Placement(atom, root, second, third, sibling=True, depth=1) for atom in children[root][2:]]
    level, depth = children[root], 2
    while level:
        for centre in level:
            first_reference = third if centre == second else axis[axis[centre]]
            for place, atom in enumerate(children[centre]):
                reference = children[centre][0] if place > 0 else first_reference
                rows.append(Placement(atom, centre, axis[centre], reference, sibling=place > 0, depth=depth))
                axis[atom] = centre
        level, depth = [atom for centre in level for atom in children[centre]], depth + 1
    # The first three rows stay; then, at each depth, atoms with children come first.
    return tuple(rows[:3] + sorted(rows[3:], key=lambda row: (row.depth, not children[row.atom])))


def _torsion_names(rows: Sequence[Placement], torsions: Sequence[NamedTorsion]) -> dict[int, str]:
    """Names of the torsions of first children; a torsion read backwards is the same torsion."""
    by_atoms = {atoms: torsion.name for torsion in torsions for atoms in (torsion.atoms, torsion.atoms[::-1])}
    names = {}
    for row in rows[3:]:
        atoms = (*row.torsion, row.atom)
        if atoms in by_atoms and not row.sibling:
            names[row.atom] = by_atoms[atoms]
    return names
