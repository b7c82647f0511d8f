"""Small molecules from SMILES, SDF and MOL2 with RDKit: all hydrogens, complete stereochemistry, a 3D structure.

RDKit is an extra (`pip install "boltzport[smiles]"`) and is imported when a small molecule is read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

SEED = 20
"""Seed of the embedding."""
CONFORMERS = 20
"""Number of embedded conformers; the one of lowest energy is the reference structure."""
ELEMENTS = ("H", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Br", "I")
"""Elements that MMFF94 has in organic molecules."""


def has_rdkit() -> bool:
    """Whether RDKit is installed."""
    from importlib.util import find_spec

    return find_spec("rdkit") is not None


def require_rdkit(what: str) -> None:
    """Check that RDKit is installed.

    Raises:
        InputError: It is not; the message says how to install it.
    """
    if not has_rdkit():
        raise InputError(f'{what} needs RDKit: install it with pip install "boltzport[smiles]"')


def is_valid_smiles(text: str) -> bool:
    """Whether RDKit can read a text as SMILES.

    Example:
        >>> is_valid_smiles("CC(=O)N"), is_valid_smiles("alanine")
        (True, False)
    """
    from rdkit import Chem

    with _quiet():
        return bool(text.strip()) and len(text.split()) == 1 and Chem.MolFromSmiles(text) is not None


def read_smiles(smiles: str) -> "Mol":
    """Molecule of a SMILES, with hydrogens and without a structure.

    Raises:
        InputError: The SMILES is not valid, or the molecule is not supported; the message names the atom.
    """
    from rdkit import Chem

    with _quiet():
        molecule = Chem.MolFromSmiles(smiles) if len(smiles.split()) == 1 else None
        if molecule is None:
            raise InputError(f"{smiles!r} is not a valid SMILES{_problem(smiles)}")
        return _complete(molecule, repr(smiles))


def read_file(path: Path) -> "Mol":
    """Molecule of an SDF or MOL2 file, with hydrogens, and with its structure if it has one in three dimensions.

    Raises:
        InputError: The file cannot be read, holds several molecules, or the molecule is not supported.
    """
    from rdkit import Chem

    try:
        text = path.read_text()
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        raise InputError(f"{path} cannot be read: {reason}") from None
    mol2 = path.suffix.lower() == ".mol2"
    separator = "@<TRIPOS>MOLECULE" if mol2 else "$$$$"
    records = [record for record in text.split(separator) if record.strip()]
    if len(records) > 1:
        raise InputError(f"{path} holds {len(records)} molecules; expected one: keep one of them")
    with _quiet():
        molecule = Chem.MolFromMol2Block(text, removeHs=False) if mol2 else Chem.MolFromMolBlock(text, removeHs=False)
        if molecule is None:
            raise InputError(f"{path} could not be read as {'a MOL2' if mol2 else 'an SDF'} file")
        if not molecule.GetNumAtoms():
            raise InputError(f"{path} has no atoms; expected a molecule")
        if _has_structure(molecule):
            Chem.AssignStereochemistryFrom3D(molecule)
        return _complete(molecule, str(path))


def embed(molecule: "Mol") -> "Mol":
    """A structure for a molecule: that of its file, or else the embedded conformer with the lowest MMFF94 energy.

    Raises:
        InputError: RDKit finds no structure.
    """
    from rdkit.Chem import rdDistGeom, rdForceFieldHelpers

    if _has_structure(molecule):
        return molecule
    molecule.RemoveAllConformers()
    with _quiet():
        parameters: Any = rdDistGeom.ETKDGv3()
        parameters.randomSeed = SEED
        parameters.useMacrocycle14config = True
        found = list(rdDistGeom.EmbedMultipleConfs(molecule, CONFORMERS, parameters))
        if not found:
            parameters.useRandomCoords = True
            found = list(rdDistGeom.EmbedMultipleConfs(molecule, CONFORMERS, parameters))
        if not found:
            raise InputError("RDKit finds no structure for this molecule: is its stereochemistry possible?")
        relaxed = rdForceFieldHelpers.MMFFOptimizeMoleculeConfs(molecule, maxIters=2000)
    _, best = min((energy, conformer) for (_, energy), conformer in zip(relaxed, found, strict=True))
    for conformer in found:
        if conformer != best:
            molecule.RemoveConformer(conformer)
    return molecule


def atom_name(molecule: "Mol", atom: int) -> str:
    """Name of an atom: its element and its place in the SMILES or the file, from 1."""
    return f"{molecule.GetAtomWithIdx(atom).GetSymbol()}{atom + 1}"


def to_sdf(molecule: "Mol") -> str:
    """The molecule with its structure as an SDF file, in full precision."""
    from rdkit import Chem

    parameters: Any = Chem.MolWriterParams()
    parameters.forceV3000 = True
    parameters.precision = 12
    return str(Chem.MolToMolBlock(molecule, parameters)) + "$$$$\n"


def _complete(molecule: "Mol", source: str) -> "Mol":
    """Check a molecule and add its hydrogens."""
    from rdkit import Chem

    pieces = Chem.GetMolFrags(molecule)
    if len(pieces) > 1:
        raise InputError(f"{source} has {len(pieces)} molecules; expected one: leave out salts and solvents")
    for atom in molecule.GetAtoms():
        name = atom_name(molecule, atom.GetIdx())
        if atom.GetAtomicNum() == 0:
            raise InputError(f"{source}: the atom {name} is not an element; expected a complete molecule")
        if atom.GetSymbol() not in ELEMENTS:
            element = Chem.GetPeriodicTable().GetElementName(atom.GetAtomicNum()).lower()
            raise InputError(
                f"{source}: the atom {name} is {element}, for which MMFF94 has no parameters in organic molecules; "
                f"expected {' '.join(ELEMENTS)}"
            )
        if atom.GetNumRadicalElectrons():
            raise InputError(f"{source}: the atom {name} is a radical; expected a closed shell: add its hydrogens")
    _check_stereo(molecule, source)
    return Chem.AddHs(molecule, addCoords=True)


def _check_stereo(molecule: "Mol", source: str) -> None:
    from rdkit import Chem

    marked = Chem.Mol(molecule)
    for atom in marked.GetAtoms():
        atom.SetIntProp("_place", atom.GetIdx())
    bare = Chem.RemoveHs(marked)
    places = [atom.GetIntProp("_place") for atom in bare.GetAtoms()]
    for found in Chem.FindPotentialStereo(bare, cleanIt=False):
        if found.specified == Chem.StereoSpecified.Specified:
            continue
        if found.type == Chem.StereoType.Atom_Tetrahedral:
            where = atom_name(molecule, places[found.centeredOn])
            raise InputError(f"{source}: the stereocentre {where} is not specified; write @ or @@ for it")
        if found.type == Chem.StereoType.Bond_Double:
            bond = bare.GetBondWithIdx(found.centeredOn)
            ends = [atom_name(molecule, places[atom]) for atom in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())]
            raise InputError(f"{source}: the double bond {'='.join(ends)} is not specified; write / and \\ beside it")


def _has_structure(molecule: "Mol") -> bool:
    return bool(molecule.GetNumConformers()) and molecule.GetConformer().Is3D()


def _problem(smiles: str) -> str:
    """What is wrong with a SMILES, as far as RDKit says."""
    from rdkit import Chem

    rough = Chem.MolFromSmiles(smiles, sanitize=False) if len(smiles.split()) == 1 else None
    problems = [] if rough is None else Chem.DetectChemistryProblems(rough)
    if rough is None or not problems:
        return ""
    if problems[0].GetType() == "AtomValenceException":
        return f": the atom {atom_name(rough, problems[0].GetAtomIdx())} has too many bonds for its charge"
    return f": {problems[0].Message()}"


@contextmanager
def _quiet() -> Iterator[None]:
    """RDKit writes its own messages to standard error."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        yield
