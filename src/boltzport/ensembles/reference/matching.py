"""Match the atoms of a trajectory to ours: by residue and name, and hydrogens by their bonded atom."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boltzport.core.errors import InputError
from boltzport.molecules import Topology

BOND = 0.145
"""Longest distance in nm from a hydrogen to its bonded atom."""
_SAME_RESIDUE = {
    "HID": "HIS",
    "HIE": "HIS",
    "HIP": "HIS",
    "CYX": "CYS",
    "CYM": "CYS",
    "ASH": "ASP",
    "GLH": "GLU",
    "LYN": "LYS",
    "NMA": "NME",
}
_SAME_ATOM = {("NME", "CH3"): "C", ("ILE", "CD"): "CD1", ("*", "OT1"): "O", ("*", "OT2"): "OXT"}


class Named(NamedTuple):
    """The atoms of a file.

    Attributes:
        elements: Atomic numbers.
        names: Names of the atoms.
        residues: Index of the residue of each atom.
        residue_names: Names of the residues.
    """

    elements: tuple[int, ...]
    names: tuple[str, ...]
    residues: tuple[int, ...]
    residue_names: tuple[str, ...]


def match_atoms(ours: Topology, theirs: Named, positions: Float[np.ndarray, "theirs 3"]) -> Int[np.ndarray, " atoms"]:
    """Index in the file of each of our atoms.

    Heavy atoms are matched by residue index and name. Hydrogens, whose names differ between programs, are matched by
    their bonded atom: by name if the names agree, else in order.

    Args:
        ours: The molecule.
        theirs: The atoms of the file.
        positions: Frame of the file in nm, which determines the bonded atoms of hydrogens.

    Raises:
        InputError: An atom or residue of one has no partner in the other; the message names it.
    """
    if len(theirs.names) != ours.n_atoms:
        raise InputError(
            f"expected a trajectory of {ours.n_atoms} atoms, got {len(theirs.names)}: strip solvent and ions"
        )
    expected = tuple(_residue(name) for name in ours.residue_names)
    got = tuple(_residue(name) for name in theirs.residue_names)
    if expected != got:
        raise InputError(f"expected the residues {'-'.join(ours.residue_names)}, got {'-'.join(theirs.residue_names)}")
    heavy = {_key(theirs, i): i for i, element in enumerate(theirs.elements) if element != 1}
    index = np.full(ours.n_atoms, -1)
    for atom in range(ours.n_atoms):
        if not ours.is_hydrogen(atom):
            key = _key(Named(ours.elements, ours.names, ours.residues, ours.residue_names), atom)
            if key not in heavy:
                raise InputError(f"the trajectory has no atom {ours.label(atom)}; expected the names of the PDB")
            index[atom] = heavy[key]
    hydrogens = _hydrogens(theirs, positions)
    for atom in range(ours.n_atoms):
        mine = [other for other in ours.neighbours[atom] if ours.is_hydrogen(other)]
        if not mine or ours.is_hydrogen(atom):
            continue
        found = hydrogens.get(int(index[atom]), [])
        if len(found) != len(mine):
            raise InputError(
                f"expected {len(mine)} hydrogens on {ours.label(atom)}, got {len(found)} in the trajectory: "
                "is its protonation the same?"
            )
        by_name = {theirs.names[i]: i for i in found}
        if {ours.names[other] for other in mine} == set(by_name):
            found = [by_name[ours.names[other]] for other in mine]
        index[mine] = found
    return index


def _hydrogens(theirs: Named, positions: np.ndarray) -> dict[int, list[int]]:
    """Hydrogens of each heavy atom, by distance."""
    heavy = np.array([i for i, element in enumerate(theirs.elements) if element != 1])
    found = defaultdict(list)
    for i, element in enumerate(theirs.elements):
        if element == 1:
            distance = np.linalg.norm(positions[heavy] - positions[i], axis=1)
            if distance.min() > BOND:
                raise InputError(
                    f"hydrogen {theirs.residue_names[theirs.residues[i]]}.{theirs.names[i]} of the trajectory is "
                    f"{distance.min():.2f} nm from any other atom; expected a whole molecule in nm, not cut by a box"
                )
            found[int(heavy[distance.argmin()])].append(i)
    return found


def _residue(name: str) -> str:
    return _SAME_RESIDUE.get(name, name)


def _key(named: Named, atom: int) -> tuple[int, str]:
    residue = _residue(named.residue_names[named.residues[atom]])
    name = named.names[atom]
    return named.residues[atom], _SAME_ATOM.get((residue, name), _SAME_ATOM.get(("*", name), name))
