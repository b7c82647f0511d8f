"""Checks of structures that users give: bond lengths, handedness, amides, and charges without a solvent."""

from typing import NamedTuple

import numpy as np
import openmm
import openmm.unit
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.topology import Topology

RADII = {1: 0.031, 5: 0.084, 6: 0.076, 7: 0.071, 8: 0.066, 9: 0.057, 14: 0.111, 15: 0.107, 16: 0.105, 17: 0.102,
         34: 0.120, 35: 0.120, 53: 0.139}  # fmt: skip
"""Covalent radii in nm (Cordero et al. 2008), by atomic number."""
SHORTEST, LONGEST = 0.6, 1.6
"""Range of a bond's length, in units of the sum of the radii: what a minimisation can mend."""
HOTTEST = 1e4
"""Highest temperature in K: above it bonds break, which no force field of fixed bonds describes."""


class Amide(NamedTuple):
    """A peptide bond: the residues that it joins, and whether it is `cis` or `trans`."""

    residues: str
    kind: str


class _Lengths(NamedTuple):
    """Bonds between known elements, their lengths in nm, and the sums of the radii of their atoms."""

    bonds: list[tuple[int, int]]
    found: Float[np.ndarray, " bonds"]
    expected: Float[np.ndarray, " bonds"]


def check_units(source: str, topology: Topology, positions: Float[np.ndarray, "atoms 3"]) -> None:
    """Check that bonds are about as long as those of molecules.

    Args:
        source: Name of the file, for messages.
        topology: Atoms and bonds.
        positions: Positions in nm.

    Raises:
        InputError: The coordinates have another unit.
    """
    lengths = _lengths(topology, positions)
    if not lengths.bonds:
        return
    middle = float(np.median(lengths.found / lengths.expected))
    if not SHORTEST < middle < LONGEST:
        raise InputError(
            f"{source}: bonds are {middle:.2g} times as long as expected; PDB files are in angstrom: convert the "
            "coordinates"
        )


def check_bonds(source: str, topology: Topology, positions: Float[np.ndarray, "atoms 3"]) -> None:
    """Check that all bonded atoms are about a bond's length apart.

    Args:
        source: Name of the file, for messages.
        topology: Atoms and bonds.
        positions: Positions in nm.

    Raises:
        InputError: Atoms are misplaced; the message names the worst bond.
    """
    lengths = _lengths(topology, positions)
    if not lengths.bonds:
        return
    stretch = np.abs(np.log(np.maximum(lengths.found / lengths.expected, 1e-6)))
    ratios = lengths.found / lengths.expected
    wrong = (ratios <= SHORTEST) | (ratios >= LONGEST)
    if not wrong.any():
        return
    worst = int(np.where(wrong, stretch, -1.0).argmax())
    where = "-".join(topology.label(atom) for atom in lengths.bonds[worst])
    raise InputError(
        f"{source}: the bond {where} is {lengths.found[worst]:.2f} nm long, expected about "
        f"{lengths.expected[worst]:.2f} nm: the atoms are misplaced; correct the file"
    )


def _lengths(topology: Topology, positions: Float[np.ndarray, "atoms 3"]) -> _Lengths:
    known = [(a, b) for a, b in topology.bonds if topology.elements[a] in RADII and topology.elements[b] in RADII]
    found = np.array([float(np.linalg.norm(positions[a] - positions[b])) for a, b in known])
    expected = np.array([RADII[topology.elements[a]] + RADII[topology.elements[b]] for a, b in known])
    return _Lengths(known, found, expected)


def handedness(topology: Topology, positions: Float[np.ndarray, "atoms 3"]) -> dict[str, str]:
    """L or D for each residue with a chiral alpha carbon, by label.

    Example:
        >>> from boltzport.molecules import Molecule
        >>> molecule = Molecule("alanine-dipeptide")
        >>> handedness(molecule.topology, molecule.positions), handedness(molecule.topology, -molecule.positions)
        ({'ALA2': 'L'}, {'ALA2': 'D'})
    """
    found = {}
    for residue, label in enumerate(topology.residue_labels):
        atoms = [topology.find(residue, name) for name in ("CA", "N", "C", "CB")]
        if any(atom is None for atom in atoms):
            continue
        centre, nitrogen, carbon, side = (positions[atom] for atom in atoms if atom is not None)
        volume = np.cross(nitrogen - centre, carbon - centre) @ (side - centre)
        found[label] = "L" if volume > 0 else "D"
    return found


def amides(topology: Topology, positions: Float[np.ndarray, "atoms 3"]) -> tuple[Amide, ...]:
    """The peptide bonds, in order of the bond list, with caps."""
    found = []
    for first, second in topology.bonds:
        if (topology.names[first], topology.names[second]) == ("N", "C"):
            first, second = second, first
        one, other = topology.residues[first], topology.residues[second]
        if (topology.names[first], topology.names[second]) != ("C", "N") or one == other:
            continue
        before = _either(topology, one, ("CA", "CH3"))
        after = _either(topology, other, ("CA", "CH3", "C"))
        if before is None or after is None:
            continue
        kind = "trans" if _cosine(*(positions[atom] for atom in (before, first, second, after))) < 0 else "cis"
        found.append(Amide(f"{topology.residue_labels[one]}-{topology.residue_labels[other]}", kind))
    return tuple(found)


def check_minimised(
    source: str, topology: Topology, before: Float[np.ndarray, "atoms 3"], after: Float[np.ndarray, "atoms 3"]
) -> None:
    """Check that the minimisation of a user's structure has kept its handedness and its amides.

    Raises:
        InputError: It has changed one.
    """
    here, there = handedness(topology, before), handedness(topology, after)
    changed = [f"{label} from {here[label]} to {there[label]}" for label in here if here[label] != there[label]]
    pairs = zip(amides(topology, before), amides(topology, after), strict=True)
    changed += [f"{old.residues} from {old.kind} to {new.kind}" for old, new in pairs if old.kind != new.kind]
    if changed:
        raise InputError(
            f"{source}: the minimisation changes {', '.join(changed)}, since the structure is too strained; expected "
            "one near a minimum"
        )


def charged_in_vacuum(topology: Topology, system: openmm.System) -> tuple[str, ...]:
    """Labels of charged residues if the system has no implicit solvent; empty if it has one.

    Opposite charges of one residue, such as those of glutamate at the start of a chain, count too.
    """
    charges = np.zeros(len(topology.residue_labels))
    for force in system.getForces():
        name = force.getName() + type(force).__name__
        if any(part in name for part in ("GB", "Kirkwood")):
            return ()
        if isinstance(force, openmm.NonbondedForce):
            for atom, residue in enumerate(topology.residues):
                charge = force.getParticleParameters(atom)[0]
                charges[residue] += charge.value_in_unit(openmm.unit.elementary_charge)
    if not charges.any():
        return ()
    ions = {topology.residues[atom] for atom in range(topology.n_atoms) if _is_ion(topology, atom)}
    return tuple(
        label
        for residue, label in enumerate(topology.residue_labels)
        if abs(round(charges[residue])) >= 1 or residue in ions
    )


def _is_ion(topology: Topology, atom: int) -> bool:
    """Whether an atom is the nitrogen of an ammonium group or the carbon of a carboxylate."""
    around = topology.neighbours[atom]
    lone = sum(topology.elements[other] == 8 and len(topology.neighbours[other]) == 1 for other in around)
    return (topology.elements[atom] == 7 and len(around) == 4) or (topology.elements[atom] == 6 and lone == 2)


def _either(topology: Topology, residue: int, names: tuple[str, ...]) -> int | None:
    return next((atom for name in names if (atom := topology.find(residue, name)) is not None), None)


def _cosine(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> float:
    """Cosine of a torsion, up to a positive factor."""
    axis = c - b
    return float(np.cross(axis, a - b) @ np.cross(axis, d - c))
