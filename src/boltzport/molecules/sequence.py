"""Peptides from their sequence.

PeptideBuilder builds the heavy atoms: of the libraries that were tested, it is the only one that gives all twenty
residues with L-chirality and trans peptide bonds (pdbfixer built a cis bond; rdkit's isoleucine does not match the
force fields' templates). Caps are modified glycines. OpenMM's Modeller adds the hydrogens for a given pH.
"""

import io
import re
import warnings
from dataclasses import dataclass

import numpy as np
import openmm
import openmm.app
import openmm.unit
import PeptideBuilder
from Bio.PDB.Residue import Residue
from Bio.PDB.Structure import Structure
from jaxtyping import Float
from PeptideBuilder import Geometry

from boltzport.core.errors import InputError
from boltzport.molecules.chirality import tetrahedral_centres
from boltzport.molecules.hydrogens import add_hydrogens
from boltzport.molecules.permutation import permutation_groups
from boltzport.molecules.rings import closed
from boltzport.molecules.topology import Topology, from_openmm
from boltzport.molecules.torsions import D_RESIDUES, named_torsions, standard_name
from boltzport.molecules.zmatrix import ZMatrix

LETTERS = {
    "A": "ALA", "R": "ARG", "N": "ASN", "D": "ASP", "C": "CYS", "Q": "GLN", "E": "GLU", "G": "GLY", "H": "HIS",
    "I": "ILE", "L": "LEU", "K": "LYS", "M": "MET", "F": "PHE", "P": "PRO", "S": "SER", "T": "THR", "W": "TRP",
    "Y": "TYR", "V": "VAL",
}  # fmt: skip
"""The twenty residues by one-letter code."""

_CODES = {name: letter for letter, name in LETTERS.items()}
_VARIANTS = ("ASH", "CYX", "GLH", "HID", "HIE", "HIP", "LYN")
_D_CODES = {_CODES[name]: mirrored for mirrored, name in D_RESIDUES.items()}
_CYCLIC = re.compile(r"cyclo\((.*)\)")
_BACKBONE = ("N", "CA", "C", "O", "OXT")
SMALLEST_RING = 4
"""Smallest number of residues of a cyclic peptide, whose peptide bonds can be trans."""
_MODIFIED = {
    "SEP": "phosphoserine", "TPO": "phosphothreonine", "PTR": "phosphotyrosine", "MVA": "N-methylvaline",
    "MLE": "N-methylleucine", "SAR": "N-methylglycine", "MAA": "N-methylalanine", "AIB": "aminoisobutyric acid",
    "HYP": "hydroxyproline", "NLE": "norleucine", "ORN": "ornithine",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Peptide:
    """A sequence: residue names, with protonation variants, and the caps (a terminus without cap is charged).

    Attributes:
        residues: Names of the residues; two CYX are joined by a disulfide.
        acetyl: Whether the sequence starts with the cap ACE.
        methylamide: Whether it ends with the cap NME.
        cyclic: Whether the last residue is bonded to the first.
    """

    residues: tuple[str, ...]
    acetyl: bool = False
    methylamide: bool = False
    cyclic: bool = False

    def __str__(self) -> str:
        if self.cyclic:
            return f"cyclo({'-'.join(self.residues)})"
        caps = ("ACE",) if self.acetyl else (), ("NME",) if self.methylamide else ()
        return "-".join(caps[0] + self.residues + caps[1])


def parse_sequence(text: str) -> Peptide:
    """Parse a sequence such as `ELIL`, `ACE-ALA-ALA-NME`, `ACE-ELIL-NME`, `ALA-HIP-NME` or `cyclo(GLY-DPR-AAV)`.

    D-residues have their names of the data bank (`DAL`) or, between dashes, lower-case letters (`ACE-AaG-NME`).

    Example:
        >>> str(parse_sequence("ELIL"))
        'GLU-LEU-ILE-LEU'
        >>> str(parse_sequence("ACE-AaG-NME"))
        'ACE-ALA-DAL-GLY-NME'
        >>> parse_sequence("ACE-ALA-NME")
        Peptide(residues=('ALA',), acetyl=True, methylamide=True, cyclic=False)

    Raises:
        InputError: A letter or residue is unknown, or a cap is not at its end.
    """
    ring = _CYCLIC.fullmatch(text)
    if ring is not None:
        return _cyclic(ring[1], text)
    tokens = text.split("-")
    acetyl, methylamide = tokens[0] == "ACE", len(tokens) > 1 and tokens[-1] == "NME"
    inner = tokens[int(acetyl) : len(tokens) - int(methylamide)]
    residues: list[str] = []
    for token in inner:
        if not token and len(inner) > 1:
            raise InputError(f"empty residue in {text!r}: there are two dashes in a row, or one at an end")
        if token in ("ACE", "NME"):
            where, end = ("first", "start") if token == "ACE" else ("last", "end")
            raise InputError(f"the cap {token} in {text!r} is not at the {end}; expected it {where}, as in ACE-ALA-NME")
        # Without dashes, letters are residues: ALA is Ala-Leu-Ala. Between dashes, three letters are one residue, so
        # that an unknown residue (SEP) is an error and not the peptide S-E-P; in mixed case they are letters.
        if len(tokens) > 1 and len(token) == 3 and (token.isupper() or token.islower()):
            residues.append(_residue(token, text))
        else:
            residues += _letters(token, text, mirrored=len(tokens) > 1)
    if not residues:
        raise InputError(f"no residue in the sequence {text!r}; expected one such as ELIL or ACE-ALA-NME")
    if residues.count("CYX") not in (0, 2):
        raise InputError(
            f"{residues.count('CYX')} CYX in {text!r}; expected two, which a disulfide joins: a PDB file says which of "
            "more are joined"
        )
    return Peptide(residues=tuple(residues), acetyl=acetyl, methylamide=methylamide)


def _cyclic(inner: str, text: str) -> Peptide:
    found = parse_sequence(inner)
    if found.acetyl or found.methylamide:
        raise InputError(f"{text!r} is a ring, which has no ends; leave out the caps ACE and NME")
    if len(found.residues) < SMALLEST_RING:
        raise InputError(
            f"{text!r} has {len(found.residues)} residues; expected at least {SMALLEST_RING} in a ring: write smaller "
            "ones as SMILES"
        )
    return Peptide(residues=found.residues, cyclic=True)


def build_peptide(peptide: Peptide, *, ph: float = 7.0) -> openmm.app.Modeller:
    """Build a peptide with hydrogens: trans peptide bonds; extended, if no bond closes a ring.

    The result is deterministic. Residues take the most common form at the pH, unless their name specifies
    another; termini without cap are charged at any pH.
    """
    structure = _heavy_atoms(peptide)
    topology, positions = _to_openmm(structure, peptide)
    if bonds := _ring_bonds(topology, peptide):
        positions = _closed(topology, positions, bonds, peptide)
    modeller = openmm.app.Modeller(topology, positions * openmm.unit.nanometer)
    variants = [
        name if name in _VARIANTS else None
        for name in (("ACE",) * peptide.acetyl + peptide.residues + ("NME",) * peptide.methylamide)
    ]
    add_hydrogens(modeller, ph=ph, variants=variants)
    residues = list(modeller.topology.residues())
    if peptide.cyclic:
        modeller.delete([atom for atom in residues[0].atoms() if atom.name in ("H2", "H3")])
    for residue, name in zip(list(modeller.topology.residues())[peptide.acetyl :], peptide.residues, strict=False):
        if name in D_RESIDUES:
            residue.name = name
    return modeller


def _residue(token: str, text: str) -> str:
    if token in _MODIFIED:
        raise InputError(
            f"{_MODIFIED[token]}, {token} in {text!r}, cannot be built from a sequence; expected a PDB file with its "
            "atoms and CONECT records, and a force field with its template: charmm36_2024.xml has SEP, TPO and PTR; "
            "for others, add your own XML file to the force field"
        )
    if token not in _CODES and token not in _VARIANTS and token not in D_RESIDUES:
        known = " ".join(sorted((*_CODES, *D_RESIDUES, *_VARIANTS, "ACE", "NME")))
        hint = "; residues are written in capitals" if token.upper() in known.split() else ""
        raise InputError(f"unknown residue {token!r} in {text!r}; expected one of {known}{hint}")
    return token


def _letters(token: str, text: str, *, mirrored: bool) -> list[str]:
    known = LETTERS | ({letter.lower(): name for letter, name in _D_CODES.items()} if mirrored else {})
    for position, letter in enumerate(token):
        if letter not in known:
            hint = "; residues are written in capitals, D-residues in lower case between dashes, as in ACE-a-NME"
            hint = hint if letter.upper() in LETTERS else ""
            where = f"{token!r}" if token == text else f"{token!r} in {text!r}"
            raise InputError(
                f"unknown letter {letter!r} at position {position + 1} of {where}; "
                f"expected one of {''.join(sorted(LETTERS))}{hint}"
            )
    return [known[letter] for letter in token]


def _heavy_atoms(peptide: Peptide) -> Structure:
    """Heavy atoms from PeptideBuilder, with a glycine in place of each cap."""
    names = [standard_name(name) for name in peptide.residues]
    mirrored = [False] * peptide.acetyl + [name in D_RESIDUES for name in peptide.residues]
    letters = "G" * peptide.acetyl + "".join(_CODES[name] for name in names) + "G" * peptide.methylamide
    with warnings.catch_warnings():
        # Biopython divides zero by zero for a rotation by zero, and then handles the case.
        warnings.simplefilter("ignore", RuntimeWarning)
        geometries = [_geometry(letter) for letter in letters]
        for place, _ in enumerate(mirrored):
            if mirrored[place]:
                geometries[place].phi *= -1.0
                if place + 1 < len(geometries):
                    geometries[place + 1].psi_im1 *= -1.0
        structure: Structure = PeptideBuilder.make_structure_from_geos(geometries)
        if not (peptide.methylamide or peptide.cyclic):
            PeptideBuilder.add_terminal_OXT(structure)
    for residue, reflect in zip(structure.get_residues(), mirrored, strict=False):  # type: ignore[no-untyped-call]
        if reflect:
            _reflect(residue)
    return structure


def _reflect(residue: Residue) -> None:
    """Reflect the side chain of a residue through the plane of N, CA and C, which makes it the D-residue."""
    nitrogen, alpha, carbon = (residue[name].coord for name in ("N", "CA", "C"))
    normal = np.cross(nitrogen - alpha, carbon - alpha)
    normal /= np.linalg.norm(normal)
    for atom in residue:
        if atom.get_name() not in _BACKBONE:
            atom.set_coord(atom.coord - 2.0 * ((atom.coord - alpha) @ normal) * normal)


def _ring_bonds(
    topology: openmm.app.Topology, peptide: Peptide
) -> list[tuple[openmm.app.topology.Atom, openmm.app.topology.Atom]]:
    """The bonds that close rings of a peptide."""
    residues = list(topology.residues())
    inner = residues[peptide.acetyl :]
    ends = [(inner[place], "SG") for place, name in enumerate(peptide.residues) if name == "CYX"]
    if peptide.cyclic:
        ends += [(residues[-1], "C"), (residues[0], "N")]
    atoms = [next(atom for atom in residue.atoms() if atom.name == name) for residue, name in ends]
    return list(zip(atoms[::2], atoms[1::2], strict=True))


def _closed(
    topology: openmm.app.Topology,
    positions: np.ndarray,
    bonds: list[tuple[openmm.app.topology.Atom, openmm.app.topology.Atom]],
    peptide: Peptide,
) -> np.ndarray:
    """Add bonds that close rings to a topology, and return positions in which they are closed."""
    file = io.StringIO()
    openmm.app.PDBFile.writeFile(topology, positions * openmm.unit.nanometer, file)
    for first, second in bonds:
        topology.addBond(first, second)
    omegas = [torsion.atoms for torsion in named_torsions(from_openmm(topology)) if torsion.name.endswith("omega")]
    return closed(file.getvalue(), [(first.index, second.index) for first, second in bonds], omegas, str(peptide))


def _geometry(letter: str) -> Geometry.Geo:
    geometry = Geometry.geometry(letter)
    if letter == "L":
        # PeptideBuilder 1.1 swaps the two methyls of leucine: CD1 is pro-R (IUPAC-IUB 1970), so CD2 is clockwise.
        geometry.CA_CB_CG_CD2_diangle = geometry.CA_CB_CG_CD1_diangle + 122.0
    return geometry


def _to_openmm(structure: Structure, peptide: Peptide) -> tuple[openmm.app.Topology, np.ndarray]:
    """OpenMM topology and positions in nm; terminal glycines become caps by removing and renaming atoms."""
    topology = openmm.app.Topology()
    chain = topology.addChain("A")
    residues = list(structure.get_residues())  # type: ignore[no-untyped-call]
    positions = []
    for number, residue in enumerate(residues):
        name, names = residue.get_resname(), {atom.get_name(): atom.get_name() for atom in residue}
        if peptide.acetyl and number == 0:
            name, names = "ACE", {"CA": "CH3", "C": "C", "O": "O"}
        elif peptide.methylamide and number == len(residues) - 1:
            name, names = "NME", {"N": "N", "CA": "C"}
        added = topology.addResidue(name, chain, str(number + 1))
        for atom in residue:
            if atom.get_name() in names:
                element = openmm.app.Element.getBySymbol(atom.element.capitalize())
                topology.addAtom(names[atom.get_name()], element, added)
                positions.append(atom.coord / 10.0)
    topology.createStandardBonds()
    return topology, np.asarray(positions, dtype=np.float64)


def iupac_hydrogens(
    topology: Topology, zmatrix: ZMatrix, positions: Float[np.ndarray, "atoms 3"]
) -> Float[np.ndarray, "atoms 3"]:
    """Positions with equivalent hydrogens in the order of IUPAC-IUB 1970: clockwise along the axis.

    Modeller places hydrogens at random, so that HB2 and HB3, or the three of a methyl, may be in either order.
    Seen along the chain, the branches of a centre are numbered clockwise: the torsion from the first child to the
    next one is positive. Equivalent hydrogens have the same parameters, so the energy does not change.

    Args:
        topology: Atoms and bonds.
        zmatrix: Z-matrix of the molecule.
        positions: Minimised structure, in which every centre is tetrahedral.
    """
    ordered = positions.copy()
    centres = {centre.atom: centre for centre in tetrahedral_centres(topology, zmatrix, positions)}
    for group in permutation_groups(topology):
        if topology.is_hydrogen(group.atoms[0]) and group.centre in centres:
            signs = centres[group.centre].signs
            *_, first, second = (atom for atom in (centres[group.centre].first, *signs) if atom in group.atoms)
            if (signs[first] if first in signs else signs[second]) < 0:
                ordered[[first, second]] = positions[[second, first]]
    return ordered
