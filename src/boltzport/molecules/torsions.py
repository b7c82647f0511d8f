"""The named torsions of a peptide: phi, psi, omega and chi."""

from collections.abc import Iterator
from typing import NamedTuple

from boltzport.molecules.topology import Topology

# IUPAC-IUB 1970; where a side chain branches, the last atom is the one with the lower number.
_CHI: dict[str, tuple[str, ...]] = {
    "ARG": ("N", "CA", "CB", "CG", "CD", "NE", "CZ", "NH1"),
    "ASN": ("N", "CA", "CB", "CG", "OD1"),
    "ASP": ("N", "CA", "CB", "CG", "OD1"),
    "CYS": ("N", "CA", "CB", "SG"),
    "GLN": ("N", "CA", "CB", "CG", "CD", "OE1"),
    "GLU": ("N", "CA", "CB", "CG", "CD", "OE1"),
    "HIS": ("N", "CA", "CB", "CG", "ND1"),
    "ILE": ("N", "CA", "CB", "CG1", "CD1"),
    "LEU": ("N", "CA", "CB", "CG", "CD1"),
    "LYS": ("N", "CA", "CB", "CG", "CD", "CE", "NZ"),
    "MET": ("N", "CA", "CB", "CG", "SD", "CE"),
    "PHE": ("N", "CA", "CB", "CG", "CD1"),
    "PRO": ("N", "CA", "CB", "CG", "CD"),
    "SER": ("N", "CA", "CB", "OG"),
    "THR": ("N", "CA", "CB", "OG1"),
    "TRP": ("N", "CA", "CB", "CG", "CD1"),
    "TYR": ("N", "CA", "CB", "CG", "CD1"),
    "VAL": ("N", "CA", "CB", "CG1"),
}
PROTONATION_VARIANTS = {
    "ASH": "ASP",
    "CYM": "CYS",
    "CYX": "CYS",
    "GLH": "GLU",
    "HID": "HIS",
    "HIE": "HIS",
    "HIP": "HIS",
    "LYN": "LYS",
}
"""Residue names of protonation states, and the standard residue of each."""

D_RESIDUES = {
    "DAL": "ALA", "DAR": "ARG", "DSG": "ASN", "DAS": "ASP", "DCY": "CYS", "DGN": "GLN", "DGL": "GLU", "DHI": "HIS",
    "DIL": "ILE", "DLE": "LEU", "DLY": "LYS", "MED": "MET", "DPN": "PHE", "DPR": "PRO", "DSN": "SER", "DTH": "THR",
    "DTR": "TRP", "DTY": "TYR", "DVA": "VAL",
}  # fmt: skip
"""Names of D-residues in the data bank, and the L-residue of each."""


def standard_name(residue: str) -> str:
    """The standard residue of a protonation state or a D-residue; another name is returned unchanged.

    Example:
        >>> standard_name("DAL"), standard_name("HIP"), standard_name("GLY")
        ('ALA', 'HIS', 'GLY')
    """
    return D_RESIDUES.get(residue) or PROTONATION_VARIANTS.get(residue, residue)


class NamedTorsion(NamedTuple):
    """A torsion with its name, such as `ALA2.phi`, and its four atoms."""

    name: str
    atoms: tuple[int, int, int, int]


def named_torsions(topology: Topology) -> list[NamedTorsion]:
    """All named torsions of a peptide, residue by residue; an empty list for other molecules."""
    found = []
    for residue in range(len(topology.residue_names)):
        for name, atoms in _backbone(topology, residue):
            found.append(NamedTorsion(f"{topology.residue_labels[residue]}.{name}", atoms))
        for name, atoms in _side_chain(topology, residue):
            found.append(NamedTorsion(f"{topology.residue_labels[residue]}.{name}", atoms))
    return found


def _backbone(topology: Topology, residue: int) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    """Phi, psi and omega; omega belongs to the peptide bond after the residue (IUPAC-IUB 1970)."""
    nitrogen, carbon = topology.find(residue, "N"), topology.find(residue, "C")
    alpha = _alpha(topology, residue)
    if carbon is None or alpha is None or alpha == carbon:
        return
    after = _partner(topology, carbon, "N")
    if nitrogen is not None:
        before = _partner(topology, nitrogen, "C")
        if before is not None:
            yield "phi", (before, nitrogen, alpha, carbon)
        if after is not None:
            yield "psi", (nitrogen, alpha, carbon, after)
    if after is not None:
        next_alpha = _alpha(topology, topology.residues[after])
        if next_alpha is not None:
            yield "omega", (alpha, carbon, after, next_alpha)


def _alpha(topology: Topology, residue: int) -> int | None:
    """The alpha carbon, or the methyl carbon in its place in ACE (CH3) and NME (CH3 or C)."""
    names = {"ACE": ("CH3",), "NME": ("CH3", "C")}.get(topology.residue_names[residue], ("CA",))
    found = (topology.find(residue, name) for name in names)
    return next((atom for atom in found if atom is not None), None)


def _side_chain(topology: Topology, residue: int) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    name = topology.residue_names[residue]
    chain = [topology.find(residue, atom) for atom in _CHI.get(standard_name(name), ())]
    for k in range(len(chain) - 3):
        first, second, third, fourth = chain[k : k + 4]
        if first is None or second is None or third is None or fourth is None:
            return
        yield f"chi{k + 1}", (first, second, third, fourth)


def _partner(topology: Topology, atom: int, name: str) -> int | None:
    """Bonded atom of that name in another residue, across a peptide bond."""
    for other in topology.neighbours[atom]:
        if topology.residues[other] != topology.residues[atom] and topology.names[other] == name:
            return other
    return None
