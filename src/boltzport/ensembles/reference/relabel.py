"""Chirality of frames: put equivalent atoms in the order of our coordinates, or raise an error if impossible."""

import numpy as np
from jaxtyping import Float, Int

from boltzport.core.errors import InputError
from boltzport.ensembles.reference.frames import internal_coordinates
from boltzport.molecules import Kind, Molecule


def relabel(
    molecule: Molecule, positions: Float[np.ndarray, "frames atoms 3"]
) -> tuple[Float[np.ndarray, "frames atoms 3"], list[str]]:
    """Give all tetrahedral centres of frames the chirality of the reference structure, by swaps of equivalent atoms.

    Args:
        molecule: The molecule with its reference structure.
        positions: Positions in nm, in the molecule's atom order.

    Returns:
        The frames, and the centres at which atoms were swapped.

    Raises:
        InputError: A centre has the opposite chirality and no equivalent atoms to swap, or frames differ.
    """
    centres = {centre.atom: centre for centre in molecule.centres}
    groups = {group.centre: group.atoms for group in molecule.permutation_groups}
    changed = []
    for atom in _inverted(molecule, positions[:1]):
        label = molecule.topology.label(atom)
        if atom not in groups:
            raise InputError(
                f"{label} has the opposite chirality in the trajectory; expected that of the reference structure: "
                "is it a D residue, or a mirror image?"
            )
        positions = _swap_branches(molecule, positions, atom, groups[atom][-2:])
        changed.append(label)
    for atom in _inverted(molecule, positions):
        assert atom in centres
        raise InputError(
            f"{molecule.topology.label(atom)} changes its chirality during the trajectory; expected frames of one "
            "molecule that does not invert"
        )
    return positions, changed


def _inverted(molecule: Molecule, positions: np.ndarray) -> list[int]:
    """Centres with a sibling torsion of the wrong sign, or a double bond on the wrong side, in any of the frames."""
    coordinates = internal_coordinates(molecule, positions)
    wrong = set()
    for i, column in enumerate(molecule.coordinates.columns):
        if column.kind is not Kind.TORSION or column.circular:
            continue
        if ((coordinates[:, i] <= column.lower) | (coordinates[:, i] >= column.upper)).any():
            wrong.add(column.atoms[2])
    return sorted(wrong)


def _swap_branches(molecule: Molecule, positions: np.ndarray, centre: int, roots: tuple[int, ...]) -> np.ndarray:
    """Swap two equivalent branches of a centre in all frames, atom by atom."""
    first, second = (_branch(molecule, centre, root) for root in roots)
    order: Int[np.ndarray, " atoms"] = np.arange(positions.shape[1])
    order[first], order[second] = second, first
    return positions[:, order]


def _branch(molecule: Molecule, centre: int, root: int) -> list[int]:
    """Atoms of a branch, level by level from its root, in the same order for equivalent branches."""
    topology = molecule.topology
    found, frontier = [root], [root]
    while frontier:
        atom = frontier.pop(0)
        for other in sorted(topology.neighbours[atom], key=lambda other: (topology.elements[other], other)):
            if other != centre and other not in found:
                found.append(other)
                frontier.append(other)
    return found
