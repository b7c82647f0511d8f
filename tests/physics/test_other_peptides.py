"""D-residues and rings: from a sequence to a molecule, to a PDB file, and back."""

from pathlib import Path

import numpy as np
import pytest

from boltzport.core.errors import InputError
from boltzport.molecules import Molecule
from boltzport.molecules.sequence import parse_sequence
from molecules import molecule

D_RESIDUE = "ACE-DIL-ALA-DPR-GLY-NME"
RINGS = {"head to tail": "cyclo(GLY-DPR-AV-A)", "disulfide": "ACE-CYX-GGAA-CYX-NME"}


def handedness(made: Molecule, residue: int, *, centre: str = "CA") -> float:
    """Signed volume of three neighbours of a centre: positive for an L-residue at CA."""
    names = {"CA": ("N", "C", "CB"), "CB": ("CA", "CG1", "CG2")}[centre]
    middle = made.positions[made.topology.find(residue, centre)]
    first, second, third = (made.positions[made.topology.find(residue, name)] - middle for name in names)
    return float(first @ np.cross(second, third))


def cis(made: Molecule) -> list[str]:
    internal = {}
    for name, column in ((column.name, column) for column in made.coordinates.columns):
        if name.endswith("omega"):
            a, b, c, d = (made.positions[atom] for atom in column.atoms)
            internal[name] = float(np.cross(a - b, c - b) @ np.cross(d - c, c - b))
    return [name for name, side in internal.items() if side > 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ACE-a-NME", "ACE-DAL-NME"),
        ("ACE-AaVG-NME", "ACE-ALA-DAL-VAL-GLY-NME"),
        ("E-l-IL", "GLU-DLE-ILE-LEU"),
        ("cyclo(GGGG)", "cyclo(GLY-GLY-GLY-GLY)"),
        ("cyclo(GLY-DPR-AA)", "cyclo(GLY-DPR-ALA-ALA)"),
    ],
)
def test_reads(text: str, expected: str) -> None:
    assert str(parse_sequence(text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ElIL", "unknown letter 'l' at position 2.*D-residues in lower case between dashes"),
        ("ACE-g-NME", "unknown letter 'g'"),
        ("cyclo(ACE-GGGG)", "is a ring, which has no ends"),
        ("cyclo(GGG)", "has 3 residues; expected at least 4"),
        ("ACE-CYX-GLY-NME", "1 CYX in .*; expected two"),
        ("ACE-SEP-NME", "phosphoserine, SEP in .*charmm36_2024.xml has SEP, TPO and PTR.*your own XML file"),
        ("ACE-MVA-NME", "N-methylvaline, MVA in .*; for others, add your own XML file to the force field"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_sequence(text)


def test_d_residues_are_mirrored() -> None:
    """All their centres; a molecule of mirrored residues alone has the energy of its mirror image."""
    made = molecule(D_RESIDUE)
    assert [handedness(made, residue) > 0 for residue in (1, 2, 3)] == [False, True, False]
    ours, theirs = (handedness(molecule(name), 1, centre="CB") for name in (D_RESIDUE, "ACE-ILE-NME"))
    assert ours * theirs < 0
    assert cis(made) == []
    left, right = molecule("ACE-ILE-NME"), molecule("ACE-DIL-NME")
    assert right.reference_energy() == pytest.approx(left.reference_energy(), abs=0.01)
    assert "DIL2.phi" in {column.name for column in right.coordinates.columns}
    assert "DIL2.chi2" in {column.name for column in right.coordinates.columns}


@pytest.mark.parametrize("name", RINGS.values(), ids=RINGS)
def test_rings_are_closed(name: str) -> None:
    made = molecule(name)
    for first, second in made.topology.bonds:
        assert np.linalg.norm(made.positions[first] - made.positions[second]) < 0.22
    longest = max(abs(made.topology.residues[a] - made.topology.residues[b]) for a, b in made.topology.bonds)
    assert longest == made.topology.residues[-1] - (2 if name.startswith("ACE") else 0)
    assert cis(made) == []
    for residue, label in enumerate(made.topology.residue_names):
        if made.topology.find(residue, "CB") is not None:
            assert (handedness(made, residue) > 0) == (not label.startswith("D")), label


@pytest.mark.parametrize("name", [D_RESIDUE, *RINGS.values()])
def test_a_pdb_file_gives_the_same_molecule(name: str, tmp_path: Path) -> None:
    made = molecule(name)
    made.write_pdb(tmp_path / "made.pdb")
    read = Molecule(str(tmp_path / "made.pdb"))
    assert read.topology.bonds == made.topology.bonds
    assert read.topology.residue_names == made.topology.residue_names
    assert read.reference_energy() == pytest.approx(made.reference_energy(), abs=0.5)
    assert [column.name for column in read.coordinates.columns] == [column.name for column in made.coordinates.columns]


def test_maps_of_phi_and_psi_are_for_l_residues() -> None:
    with pytest.raises(InputError, match=r"has maps of phi and psi \(CMAP\), which are wrong for the D-residue DAL2"):
        Molecule("ACE-DAL-NME", forcefield=("charmm36.xml",))
