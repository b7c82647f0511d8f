"""The rigid skeleton of a molecule, from its internal coordinates and its reference structure."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from boltzport.core.layout import Layout
from boltzport.core.skeleton import FIXED, Centre, Child, Skeleton
from boltzport.molecules import Column, Kind, Molecule

FARTHER = 4
"""Smallest number of bonds between two sites whose distance is a feature."""
MOST_PAIRS = 600
"""Largest number of such pairs; those with fewer bonds between them are kept."""
HYDROGEN, CARBON, TRIGONAL = 1, 6, 3


def with_skeleton(layout: Layout, molecule: Molecule) -> Layout:
    """The layout, with the skeleton that its torsions place."""
    return Layout(layout, skeleton=skeleton(molecule, [axis.whole_turn for axis in layout]))


def skeleton(molecule: Molecule, turns: Sequence[bool]) -> Skeleton:
    """Build the skeleton of a molecule.

    Args:
        molecule: Molecule with its reference structure.
        turns: Whether each coordinate can make a full turn. All others stay at their reference values.
    """
    columns = molecule.coordinates.columns
    internal = molecule.coordinates.to_internal(torch.from_numpy(molecule.positions).double()[None]).coordinates
    positions = molecule.coordinates.to_cartesian(internal).positions[0]
    first = _first_three(columns)
    centres = _in_order(first, _centres(columns, internal[0].tolist(), turns, positions))
    sites = _sites(molecule)
    needed = _needed(sites, centres) | set(first)
    kept = [
        centre._replace(children=tuple(child for child in centre.children if child.atom in needed))
        for centre in centres
    ]
    kept = [centre for centre in kept if centre.children or centre.coordinate != FIXED]
    number = {atom: i for i, atom in enumerate([*first, *(child.atom for centre in kept for child in centre.children)])}
    return Skeleton(
        first=tuple((float(x), float(y), float(z)) for x, y, z in positions[first]),
        centres=tuple(_renumbered(centre, number) for centre in kept),
        sites=tuple(sorted(number[site] for site in sites)),
        pairs=tuple((number[a], number[b]) for a, b in _pairs(molecule, sites)),
    )


def _first_three(columns: Sequence[Column]) -> list[int]:
    """Root, second and third atom: those that no torsion places."""
    placed = {column.atoms[-1] for column in columns if column.kind is Kind.TORSION}
    (found,) = (column.atoms for column in columns if column.kind is Kind.ANGLE and column.atoms[-1] not in placed)
    second, root, third = found
    return [root, second, third]


def _centres(
    columns: Sequence[Column], values: Sequence[float], turns: Sequence[bool], positions: Tensor
) -> list[Centre]:
    angles = {column.atoms[-1]: value for column, value in zip(columns, values, strict=True) if len(column.atoms) == 3}
    torsions = [(i, column) for i, column in enumerate(columns) if column.kind is Kind.TORSION]
    centres: dict[int, Centre] = {}
    base: dict[int, float] = {}
    # A sibling's azimuth is measured from that of the first child.
    for i, column in sorted(torsions, key=lambda each: each[1].sibling):
        reference, axis, centre, atom = column.atoms
        if centre not in centres:
            # The first child of the root is one of the first three atoms, at azimuth zero.
            turning = turns[i] and not column.sibling
            centres[centre] = Centre(reference, axis, centre, i if turning else FIXED, ())
            base[centre] = 0.0
            azimuth = 0.0 if turning else values[i]
            if not column.sibling:
                base[centre] = azimuth
        else:
            azimuth = base[centre] + values[i]
        bond = float(torch.linalg.vector_norm(positions[atom] - positions[centre]))
        child = Child(atom, bond, angles[atom], azimuth)
        centres[centre] = centres[centre]._replace(children=(*centres[centre].children, child))
    return list(centres.values())


def _in_order(first: Sequence[int], centres: Iterable[Centre]) -> list[Centre]:
    """Centres, each after those that place its atoms."""
    placed, waiting, found = set(first), list(centres), []
    while waiting:
        ready = [centre for centre in waiting if {*centre[:3]} <= placed]
        assert ready, "the internal coordinates are not a tree"
        waiting = [centre for centre in waiting if centre not in ready]
        placed |= {child.atom for centre in ready for child in centre.children}
        found += ready
    return found


def _sites(molecule: Molecule) -> list[int]:
    """Polar hydrogens, and heavy atoms; a trigonal atom only if none of its neighbours is a site."""
    topology = molecule.topology
    heavy = [atom for atom in range(topology.n_atoms) if not topology.is_hydrogen(atom)]
    sites = {atom for atom in heavy if len(topology.neighbours[atom]) != TRIGONAL}
    for atom in heavy:
        if not sites.intersection(topology.neighbours[atom]):
            sites.add(atom)
    polar = [
        atom
        for atom in range(topology.n_atoms)
        if topology.is_hydrogen(atom) and topology.elements[topology.neighbours[atom][0]] != CARBON
    ]
    return sorted({*sites, *polar})


def _needed(sites: Iterable[int], centres: Sequence[Centre]) -> set[int]:
    """Sites, the atoms that orient turning centres, and all atoms that place these."""
    needed = {*sites, *(atom for centre in centres if centre.coordinate != FIXED for atom in centre[:3])}
    for centre in reversed(centres):
        if any(child.atom in needed for child in centre.children):
            needed |= {*centre[:3]}
    return needed


def _renumbered(centre: Centre, number: dict[int, int]) -> Centre:
    children = tuple(child._replace(atom=number[child.atom]) for child in centre.children)
    reference, axis, middle = (number[atom] for atom in centre[:3])
    return Centre(reference, axis, middle, centre.coordinate, children)


def _pairs(molecule: Molecule, sites: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of sites that are far apart in the molecular graph."""
    between = {site: _bonds_from(molecule, site) for site in sites}
    found = [pair for pair in combinations(sites, 2) if between[pair[0]][pair[1]] >= FARTHER]
    return sorted(sorted(found, key=lambda pair: between[pair[0]][pair[1]])[:MOST_PAIRS])


def _bonds_from(molecule: Molecule, start: int) -> dict[int, int]:
    """Number of bonds from an atom to every other."""
    found, queue = {start: 0}, deque([start])
    while queue:
        atom = queue.popleft()
        for other in molecule.topology.neighbours[atom]:
            if other not in found:
                found[other] = found[atom] + 1
                queue.append(other)
    return found
