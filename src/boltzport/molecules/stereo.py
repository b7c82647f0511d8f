"""What a small molecule keeps besides its tetrahedral centres: double bonds, pyramids, and which planar bonds turn.

A force field gives planar centres and torsions, but not which of them a chemist regards as fixed. Double bonds that the
SMILES specifies, and those between two carbons, keep their side: no thermal motion takes a molecule across. Sulfur and
phosphorus pyramids, and every specified centre with three neighbours, keep their handedness. An amide turns as in a
peptide: its trans form is the reference, and cis is reached. Any other single bond between planar centres is free.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rdkit.Chem import Atom, Bond, Mol


@dataclass(frozen=True, kw_only=True)
class Stereo:
    """What a molecule keeps, and what turns; empty for a peptide, where the geometry alone decides.

    Attributes:
        double_bonds: Bonds whose torsion keeps its side (cis or trans), lower index first.
        pyramids: Centres with three neighbours whose handedness is kept.
        rotors: Bonds between planar centres that turn freely, lower index first.
        amides: Bonds of amides and thioamides, whose two sides are half a turn apart, lower index first.
    """

    double_bonds: frozenset[tuple[int, int]] = frozenset()
    pyramids: frozenset[int] = frozenset()
    rotors: frozenset[tuple[int, int]] = frozenset()
    amides: frozenset[tuple[int, int]] = frozenset()


def stereo_of(molecule: "Mol") -> Stereo:
    """What an RDKit molecule with all its hydrogens keeps.

    Args:
        molecule: Molecule whose stereochemistry is assigned.
    """
    from rdkit import Chem

    kept = {Chem.ChiralType.CHI_TETRAHEDRAL_CW, Chem.ChiralType.CHI_TETRAHEDRAL_CCW}
    return Stereo(
        double_bonds=frozenset(_ends(bond) for bond in molecule.GetBonds() if _keeps_side(bond)),
        pyramids=frozenset(
            atom.GetIdx()
            for atom in molecule.GetAtoms()
            if atom.GetDegree() == 3 and (atom.GetSymbol() in ("S", "P") or atom.GetChiralTag() in kept)
        ),
        rotors=frozenset(
            _ends(bond)
            for bond in molecule.GetBonds()
            if bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing() and not _prefers_a_side(bond)
        ),
        amides=frozenset(_ends(bond) for bond in molecule.GetBonds() if _nitrogen(bond) and not bond.IsInRing()),
    )


def _ends(bond: "Bond") -> tuple[int, int]:
    first, second = sorted((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
    return first, second


def _keeps_side(bond: "Bond") -> bool:
    from rdkit import Chem

    if bond.GetBondType() != Chem.BondType.DOUBLE or min(end.GetDegree() for end in _atoms(bond)) < 2:
        return False
    return bond.GetStereo() > Chem.BondStereo.STEREOANY or all(end.GetSymbol() == "C" for end in _atoms(bond))


def _prefers_a_side(bond: "Bond") -> bool:
    """Whether a bond is that of an amide with a hydrogen on its nitrogen, which prefers trans."""
    nitrogen = _nitrogen(bond)
    return nitrogen is not None and any(other.GetSymbol() == "H" for other in nitrogen.GetNeighbors())


def _nitrogen(bond: "Bond") -> "Atom | None":
    """The nitrogen of an amide or thioamide; None if the bond is not that of one."""
    for carbon, nitrogen in (_atoms(bond), _atoms(bond)[::-1]):
        if carbon.GetSymbol() == "C" and nitrogen.GetSymbol() == "N" and nitrogen.GetDegree() == 3:
            acyl = any(
                other.GetBondTypeAsDouble() == 2.0 and other.GetOtherAtom(carbon).GetSymbol() in ("O", "S")
                for other in carbon.GetBonds()
            )
            if acyl:
                return nitrogen
    return None


def _atoms(bond: "Bond") -> tuple["Atom", "Atom"]:
    return bond.GetBeginAtom(), bond.GetEndAtom()
