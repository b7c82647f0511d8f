"""Molecules from PDB files, with a specific message for each possible problem."""

import io
from pathlib import Path

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.deposited import check_alone, keep_chains
from boltzport.molecules.hydrogens import add_hydrogens, check_heavy_atoms
from boltzport.molecules.parametrise import merge_caps
from boltzport.molecules.sanity import check_units
from boltzport.molecules.topology import Topology, from_openmm
from boltzport.molecules.torsions import D_RESIDUES

CIF = (".cif", ".mmcif", ".pdbx")
"""Suffixes of PDBx/mmCIF files."""


def read_pdb(
    path: Path, *, keep: tuple[str, ...] = (), hydrogens: bool = False, ph: float = 7.0
) -> openmm.app.Modeller:
    """Atoms and positions of the first model of a PDB file.

    Args:
        path: The file.
        keep: Chains to keep, without waters, ions, ligands and alternate locations; all atoms by default.
        hydrogens: Whether to add missing hydrogens.
        ph: pH that decides which hydrogens are added.

    Raises:
        InputError: The file is missing, empty, not a PDB file, has no hydrogens, lacks heavy atoms, or holds more
            than a molecule.
    """
    if path.suffix.lower() in CIF:
        raise InputError(f"{path} seems to be an mmCIF file; expected a PDB file: convert it first")
    text = _read_text(path)
    if not any(line.startswith(("ATOM  ", "HETATM")) for line in text.splitlines()):
        raise InputError(f"{path} is not a PDB file: expected lines that start with ATOM or HETATM, found none")
    if keep:
        text = keep_chains(text, keep, str(path))
    else:
        check_alone(text, str(path))
    text, mirrored = _with_standard_names(text)
    try:
        pdb = openmm.app.PDBFile(io.StringIO(text))
    except Exception as error:  # OpenMM's parser raises arbitrary exceptions for malformed lines
        raise InputError(f"{path} could not be read as a PDB file: {error or type(error).__name__}") from error
    topology = from_openmm(pdb.topology)
    positions = np.array(pdb.positions.value_in_unit(openmm.unit.nanometer))
    if not np.isfinite(positions).all():
        raise InputError(f"{path} has positions that are not numbers")
    modeller = openmm.app.Modeller(pdb.topology, pdb.positions)
    # Before anything is concluded from distances.
    check_units(str(path), topology, positions)
    check_heavy_atoms(modeller, str(path))
    if hydrogens:
        add_hydrogens(modeller, ph=ph)
    elif not any(topology.is_hydrogen(atom) for atom in range(topology.n_atoms)):
        raise InputError(
            f"{path} has no hydrogens; expected all atoms of the force field: add_hydrogens=True (--add-hydrogens) "
            "adds them"
        )
    for residue in modeller.topology.residues():
        residue.name = mirrored.get((residue.chain.id.strip(), residue.id.strip()), residue.name)
    return modeller


def write_pdb(topology: openmm.app.Topology, positions: Float[np.ndarray, "atoms 3"]) -> str:
    """A structure in PDB format, with the bonds that a reader cannot know from the residues.

    Args:
        topology: Atoms and bonds.
        positions: Positions in nm.
    """
    file = io.StringIO()
    openmm.app.PDBFile.writeFile(topology, positions * openmm.unit.nanometer, file, keepIds=True)
    lines = file.getvalue().splitlines()
    serials = [line[6:11] for line in lines if line.startswith(("ATOM  ", "HETATM"))]
    bonds = [(first.index, second.index) for first, second in topology.bonds() if _closes_a_ring(first, second)]
    pairs = [pair for first, second in bonds for pair in ((first, second), (second, first))]
    known = [f"CONECT{serials[first]}{serials[second]}" for first, second in pairs]
    return "\n".join([*lines[:-1], *known, lines[-1], ""])


def _closes_a_ring(first: openmm.app.topology.Atom, second: openmm.app.topology.Atom) -> bool:
    """Whether a bond is neither within a residue, nor to the next one, nor a disulfide, which OpenMM writes itself."""
    return abs(first.residue.index - second.residue.index) > 1 and {first.name, second.name} != {"SG"}


def _with_standard_names(text: str) -> tuple[str, dict[tuple[str, str], str]]:
    """Name D-residues like L-residues, whose bonds OpenMM knows; returns their names by chain and number."""
    lines, names = text.splitlines(), {}
    for place, line in enumerate(lines):
        if line.startswith(("ATOM  ", "HETATM")) and line[17:20] in D_RESIDUES:
            names[line[21].strip(), line[22:26].strip()] = line[17:20]
            lines[place] = line[:17] + D_RESIDUES[line[17:20]] + line[20:]
    return "\n".join(lines) + "\n", names


def read_structure(path: Path) -> openmm.app.Modeller:
    """Atoms, bonds and positions of a PDB or PDBx/mmCIF file; a System says which atoms there must be.

    Raises:
        InputError: The file is missing, or not of this format.
    """
    text = _read_text(path)
    crystallographic = path.suffix.lower() in CIF
    reader, kind = (openmm.app.PDBxFile, "PDBx/mmCIF") if crystallographic else (openmm.app.PDBFile, "PDB")
    try:
        read = reader(io.StringIO(text))
    except Exception as error:  # OpenMM's parsers raise arbitrary exceptions for malformed lines
        raise InputError(f"{path} could not be read as a {kind} file: {error or type(error).__name__}") from error
    if read.topology.getNumAtoms() == 0:
        raise InputError(f"{path} has no atoms; expected a {kind} file")
    return openmm.app.Modeller(read.topology, read.positions)


def read_xml(path: Path) -> openmm.System:
    """Read a serialized OpenMM System.

    Raises:
        InputError: The file is missing, or holds something else.
    """
    text = _read_text(path, expected="a serialized OpenMM System")
    try:
        system = openmm.XmlSerializer.deserialize(text)
    except Exception as error:  # OpenMM raises bare exceptions
        raise InputError(f"{path} is not a serialized OpenMM System: {' '.join(str(error).split())}") from error
    if not isinstance(system, openmm.System):
        raise InputError(f"{path} holds an OpenMM {type(system).__name__}; expected a System")
    return system


def check_connected(path: Path, modeller: openmm.app.Modeller) -> None:
    """Check that the file holds one molecule.

    Raises:
        InputError: The file holds several molecules.
    """
    topology = from_openmm(modeller.topology)
    pieces = topology.molecules()
    if len(pieces) > 1:
        raise InputError(
            f"{path} holds {len(pieces)} molecules ({_pieces(topology, pieces)}); expected one: delete the others, "
            "or keep one chain with keep='A' (--keep A), or add the bonds between them as CONECT records"
        )


def explain_mismatch(path: Path, modeller: openmm.app.Modeller, forcefield: openmm.app.ForceField, names: str) -> None:
    """Explain why a force field does not fit a file, if more can be said than OpenMM does.

    Raises:
        InputError: A residue is unknown, or the file holds several molecules.
    """
    unmatched = forcefield.getUnmatchedResidues(merge_caps(modeller.topology, forcefield))
    for residue in unmatched:
        # Bonds come from residue names: an unknown residue is a set of unbonded atoms, not many molecules.
        if len(residue) > 1 and not list(residue.internal_bonds()):
            raise _unknown(path, residue, names)
    check_connected(path, modeller)
    known = _residue_names(forcefield)
    for residue in unmatched:
        if residue.name not in known:
            raise _unknown(path, residue, names)


def _unknown(path: Path, residue: openmm.app.topology.Residue, names: str) -> InputError:
    return InputError(
        f"unknown residue {residue.name!r} (number {residue.id}) in {path}: the force field {names} has no template "
        "for it; rename it, or add an XML file that has one to the force field (--forcefield NAME,own.xml)"
    )


def _read_text(path: Path, *, expected: str = "a PDB file with hydrogens") -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not data.strip():
        raise InputError(f"{path} is empty; expected {expected}")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"{path} is a binary file; expected {expected}, which is text")
    return text


def _residue_names(forcefield: openmm.app.ForceField) -> set[str]:
    """Residue names of the force field in PDB files, without terminal and protonation forms."""
    aliases = {"HIS", "CYS", "ASP", "GLU", "LYS"} if "HIE" in forcefield._templates else set()
    return set(forcefield._templates) | aliases


def _pieces(topology: Topology, pieces: list[list[int]]) -> str:
    shown = [f"{topology.label(piece[0])}, {len(piece)} atoms" for piece in pieces[:2]]
    return "; ".join(shown) + ("; ..." if len(pieces) > 2 else "")
