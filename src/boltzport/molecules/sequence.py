"""Peptides from their sequence.

PeptideBuilder builds the heavy atoms: of the libraries that were tested, it is the only one that gives all twenty
residues with L-chirality and trans peptide bonds (pdbfixer built a cis bond; rdkit's isoleucine does not match the
force fields' templates). Caps are modified glycines. OpenMM's Modeller adds the hydrogens for a given pH.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import openmm
import openmm.app
import openmm.unit
import PeptideBuilder
from Bio.PDB.Structure import Structure
from jaxtyping import Float
from PeptideBuilder import Geometry

from boltzport.core.errors import InputError
from boltzport.molecules.chirality import tetrahedral_centres
from boltzport.molecules.hydrogens import add_hydrogens
from boltzport.molecules.permutation import permutation_groups
from boltzport.molecules.topology import Topology
from boltzport.molecules.torsions import PROTONATION_VARIANTS
from boltzport.molecules.zmatrix import ZMatrix

LETTERS = {
    "A": "ALA", "R": "ARG", "N": "ASN", "D": "ASP", "C": "CYS", "Q": "GLN", "E": "GLU", "G": "GLY", "H": "HIS",
    "I": "ILE", "L": "LEU", "K": "LYS", "M": "MET", "F": "PHE", "P": "PRO", "S": "SER", "T": "THR", "W": "TRP",
    "Y": "TYR", "V": "VAL",
}  # fmt: skip
"""The twenty residues by one-letter code."""

_CODES = {name: letter for letter, name in LETTERS.items()}
_VARIANTS = ("ASH", "GLH", "HID", "HIE", "HIP", "LYN")


@dataclass(frozen=True, kw_only=True)
class Peptide:
    """A sequence: residue names, with protonation variants, and the caps (a terminus without cap is charged)."""

    residues: tuple[str, ...]
    acetyl: bool = False
    methylamide: bool = False

    def __str__(self) -> str:
        caps = ("ACE",) if self.acetyl else (), ("NME",) if self.methylamide else ()
        return "-".join(caps[0] + self.residues + caps[1])


def parse_sequence(text: str) -> Peptide:
    """Parse a sequence such as `ELIL`, `ACE-ALA-ALA-NME`, `ACE-ELIL-NME` or `ALA-HIP-NME`.

    Example:
        >>> str(parse_sequence("ELIL"))
        'GLU-LEU-ILE-LEU'
        >>> parse_sequence("ACE-ALA-NME")
        Peptide(residues=('ALA',), acetyl=True, methylamide=True)

    Raises:
        InputError: A letter or residue is unknown, or a cap is not at its end.
    """
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
        # that an unknown residue (SEP) is an error and not the peptide S-E-P.
        if len(tokens) > 1 and len(token) == 3:
            residues.append(_residue(token, text))
        else:
            residues += _letters(token, text)
    if not residues:
        raise InputError(f"no residue in the sequence {text!r}; expected one such as ELIL or ACE-ALA-NME")
    return Peptide(residues=tuple(residues), acetyl=acetyl, methylamide=methylamide)


def build_peptide(peptide: Peptide, *, ph: float = 7.0) -> openmm.app.Modeller:
    """Build a peptide with hydrogens: L residues, trans peptide bonds, extended backbone.

    The result is deterministic. Residues take the most common form at the pH, unless their name specifies
    another; termini without cap are charged at any pH.
    """
    structure = _heavy_atoms(peptide)
    topology, positions = _to_openmm(structure, peptide)
    modeller = openmm.app.Modeller(topology, positions * openmm.unit.nanometer)
    variants = [
        name if name in _VARIANTS else None
        for name in (("ACE",) * peptide.acetyl + peptide.residues + ("NME",) * peptide.methylamide)
    ]
    add_hydrogens(modeller, ph=ph, variants=variants)
    return modeller


def _residue(token: str, text: str) -> str:
    if token not in _CODES and token not in _VARIANTS:
        known = " ".join(sorted((*_CODES, *_VARIANTS, "ACE", "NME")))
        hint = "; residues are written in capitals" if token.upper() in known.split() else ""
        raise InputError(f"unknown residue {token!r} in {text!r}; expected one of {known}{hint}")
    return token


def _letters(token: str, text: str) -> list[str]:
    for position, letter in enumerate(token):
        if letter not in LETTERS:
            hint = "; residues are written in capitals" if letter.upper() in LETTERS else ""
            where = f"{token!r}" if token == text else f"{token!r} in {text!r}"
            raise InputError(
                f"unknown letter {letter!r} at position {position + 1} of {where}; "
                f"expected one of {''.join(sorted(LETTERS))}{hint}"
            )
    return [LETTERS[letter] for letter in token]


def _heavy_atoms(peptide: Peptide) -> Structure:
    """Heavy atoms from PeptideBuilder, with a glycine in place of each cap."""
    names = [PROTONATION_VARIANTS.get(name, name) for name in peptide.residues]
    letters = "G" * peptide.acetyl + "".join(_CODES[name] for name in names) + "G" * peptide.methylamide
    with warnings.catch_warnings():
        # Biopython divides zero by zero for a rotation by zero, and then handles the case.
        warnings.simplefilter("ignore", RuntimeWarning)
        structure: Structure = PeptideBuilder.make_structure_from_geos([_geometry(letter) for letter in letters])
        if not peptide.methylamide:
            PeptideBuilder.add_terminal_OXT(structure)
    return structure


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
