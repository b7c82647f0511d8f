"""Small molecules: from a SMILES, an SDF or a MOL2 file to atoms, MMFF94 and a reference structure.

A text is read, in this order, as `smiles:...`; as a name; as a sequence; as an existing file, or a file name with a
known ending; as a SMILES. So `CCCC` is four cysteines, as it always was, and `smiles:CCCC` is butane.
"""

import hashlib
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import openmm
import openmm.app
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.chemistry import (
    atom_name,
    embed,
    has_rdkit,
    is_valid_smiles,
    read_file,
    read_smiles,
    require_rdkit,
    to_sdf,
)
from boltzport.molecules.mmff import mmff_system
from boltzport.molecules.parametrise import minimise
from boltzport.molecules.sequence import parse_sequence
from boltzport.molecules.stereo import Stereo, stereo_of
from boltzport.molecules.systems import SYSTEMS

if TYPE_CHECKING:
    from rdkit.Chem import Mol

PREFIX = "smiles:"
"""Prefix of a text that is a SMILES, whatever else it could be."""
SMALL = (".sdf", ".mol", ".mol2")
"""Endings of files that hold a small molecule with its bonds."""
_OTHER_FILES = (".pdb", ".ent", ".cif", ".mmcif", ".pdbx")
_ONLY_SMILES = re.compile(r"[()=#\[\]@+]")
_LINEAR = np.cos(np.radians(175.0))


class Source(StrEnum):
    """What a text that names a molecule is."""

    NAME = "name"
    SEQUENCE = "sequence"
    PDB = "pdb"
    SMALL_FILE = "small file"
    SMILES = "smiles"


class Small(NamedTuple):
    """The parts of a small molecule; `Molecule` says what each is."""

    openmm_topology: openmm.app.Topology
    system: openmm.System
    positions: Float[np.ndarray, "atoms 3"]
    stereo: Stereo
    sdf: str
    charge: int


def source_of(text: str) -> Source:
    """What a text is; one that is nothing known is a sequence, so that its message explains it.

    Raises:
        InputError: It is empty.

    Example:
        >>> [str(source_of(text)) for text in ("aldp", "CCCC", "smiles:CCCC", "CC(=O)N", "ligand.sdf", "F/C=C/F")]
        ['name', 'sequence', 'smiles', 'smiles', 'small file', 'smiles']
    """
    if not text.strip():
        raise InputError("expected the name of a system, a sequence, a SMILES or a file, got an empty text")
    if text.startswith(PREFIX):
        return Source.SMILES
    if any(text in (entry.name, entry.alias) for entry in SYSTEMS):
        return Source.NAME
    if text.startswith("cyclo(") or _is_sequence(text):
        return Source.SEQUENCE
    suffix = Path(text).suffix.lower()
    if suffix in SMALL:
        return Source.SMALL_FILE
    if suffix in _OTHER_FILES or _exists(text):
        return Source.PDB
    if _ONLY_SMILES.search(text) or (has_rdkit() and is_valid_smiles(text)):
        return Source.SMILES
    return Source.PDB if any(sign in text for sign in "/\\.") else Source.SEQUENCE


def directory_name(system: str) -> str:
    """Name of a molecule that is safe in any file system.

    Example:
        >>> directory_name("data/ligand.sdf"), directory_name("ACE-ALA-NME"), directory_name("CC(=O)N")
        ('ligand', 'ACE-ALA-NME', 'CC_O_N-b9f52f')
    """
    if source_of(system) is not Source.SMILES:
        return Path(system).stem
    smiles = system.removeprefix(PREFIX)
    # Two SMILES can differ in signs or in capitals alone, which file systems may not keep apart.
    mark = hashlib.sha256(smiles.encode()).hexdigest()[:6]
    plain = re.sub(r"[^A-Za-z0-9]+", "_", smiles).strip("_")[:40]
    return f"{plain}-{mark}"


def count_small_atoms(system: str) -> int:
    """Number of atoms of a small molecule, with hydrogens."""
    return int(_read(system).GetNumAtoms())


def build_small(system: str) -> Small:
    """Build a small molecule from a SMILES or a file.

    Raises:
        InputError: The molecule cannot be built; the message names the atom.
    """
    molecule = embed(_read(system))
    return _parametrised(molecule, system, minimised=False)


def read_small(path: Path, *, name: str) -> Small:
    """Read a small molecule from the SDF file of a run, with its structure as it is.

    Args:
        path: SDF file that holds `Small.sdf`.
        name: Name in messages.
    """
    require_rdkit(name)
    return _parametrised(read_file(path), name, minimised=True)


def _read(system: str) -> "Mol":
    if source_of(system) is Source.SMALL_FILE:
        require_rdkit(f"the file {system}")
        return read_file(Path(system))
    require_rdkit(f"the SMILES {system.removeprefix(PREFIX)!r}")
    return read_smiles(system.removeprefix(PREFIX))


def _parametrised(molecule: "Mol", name: str, *, minimised: bool) -> Small:
    from rdkit.Chem import GetFormalCharge

    topology = _topology(molecule)
    system = mmff_system(molecule)
    positions = 0.1 * np.array(molecule.GetConformer().GetPositions(), dtype=np.float64)
    if not minimised:
        positions = minimise(system, positions)
    _check_bent(molecule, positions, name)
    conformer = molecule.GetConformer()
    for atom, position in enumerate(10.0 * positions):
        conformer.SetAtomPosition(atom, position.tolist())
    return Small(
        topology, system, positions, stereo_of(molecule), to_sdf(molecule), charge=int(GetFormalCharge(molecule))
    )


def _topology(molecule: "Mol") -> openmm.app.Topology:
    topology = openmm.app.Topology()
    residue = topology.addResidue("MOL", topology.addChain("A"))
    atoms = [
        topology.addAtom(
            atom_name(molecule, atom.GetIdx()), openmm.app.Element.getByAtomicNumber(atom.GetAtomicNum()), residue
        )
        for atom in molecule.GetAtoms()
    ]
    for bond in molecule.GetBonds():
        topology.addBond(atoms[bond.GetBeginAtomIdx()], atoms[bond.GetEndAtomIdx()])
    return topology


def _check_bent(molecule: "Mol", positions: np.ndarray, name: str) -> None:
    """Refuse linear centres, at which a torsion is not defined."""
    for atom in molecule.GetAtoms():
        others = [other.GetIdx() for other in atom.GetNeighbors()]
        if len(others) != 2:
            continue
        u, v = (positions[other] - positions[atom.GetIdx()] for other in others)
        if u @ v < _LINEAR * np.linalg.norm(u) * np.linalg.norm(v):
            raise InputError(
                f"{name}: the atom {atom_name(molecule, atom.GetIdx())} is linear (a triple or cumulated double bond), "
                "where internal coordinates have no torsion; such molecules are not supported yet"
            )


def _is_sequence(text: str) -> bool:
    try:
        parse_sequence(text)
    except InputError:
        return False
    return True


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # longer than a file name may be
        return False
