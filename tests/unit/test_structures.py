"""Structures that users give: what would silently become another molecule is refused by name."""

import io
from pathlib import Path

import numpy as np
import openmm.app
import openmm.unit
import pytest

from boltzport.core.errors import InputError
from boltzport.experiments.build import check_name
from boltzport.molecules import Molecule
from boltzport.molecules.sanity import amides, charged_in_vacuum, check_bonds, check_minimised, handedness
from molecules import molecule


def written(path: Path, *, name: str = "ACE-ALA-SER-ALA-NME", without: str = "", scale: float = 1.0) -> Path:
    """A PDB file, without a residue, or with other units."""
    mol = molecule(name)
    file = io.StringIO()
    openmm.app.PDBFile.writeFile(mol.openmm_topology, scale * mol.positions * openmm.unit.nanometer, file, keepIds=True)
    lines = [line for line in file.getvalue().splitlines() if not (without and line[17:20] == without)]
    path.write_text("\n".join(line for line in lines if not line.startswith("CONECT")))
    return path


def test_a_missing_residue_is_named(tmp_path: Path) -> None:
    """OpenMM would bond its neighbours across the gap."""
    path = written(tmp_path / "gap.pdb", without="SER")
    with pytest.raises(
        InputError, match=r"ALA2 and ALA4 are 0\.\d+ nm apart, so that residues are missing between them"
    ):
        Molecule(str(path))


@pytest.mark.parametrize("scale", [5.0, 0.1])
def test_coordinates_in_another_unit_are_refused(tmp_path: Path, scale: float) -> None:
    path = written(tmp_path / "large.pdb", scale=scale)
    with pytest.raises(InputError, match="times as long as expected; PDB files are in angstrom"):
        Molecule(str(path))


def test_misplaced_atoms_within_a_residue() -> None:
    mol = molecule("ACE-ALA-NME")
    moved = mol.positions.copy()
    moved[mol.topology.find(1, "HA")] += 0.5
    with pytest.raises(InputError, match=r"ALA2\.CA-ALA2\.HA is .* the atoms are misplaced"):
        check_bonds("mine.pdb", mol.topology, moved)
    check_bonds("mine.pdb", mol.topology, mol.positions)


def test_the_hand_and_the_amides_are_said() -> None:
    mol = molecule("ACE-ALA-SER-ALA-NME")
    assert mol.handedness == {"ALA2": "L", "SER3": "L", "ALA4": "L"}
    assert set(handedness(mol.topology, -mol.positions).values()) == {"D"}
    assert [amide.kind for amide in mol.amides] == ["trans"] * 4
    assert [amide.residues for amide in mol.amides] == ["ACE1-ALA2", "ALA2-SER3", "SER3-ALA4", "ALA4-NME5"]


def test_a_cis_amide_is_told_from_a_trans_one() -> None:
    mol = molecule("ACE-ALA-NME")
    place = next(i for i, column in enumerate(mol.coordinates.columns) if column.name == "ALA2.omega")
    internal = mol.coordinates.to_internal(_tensor(mol.positions)).coordinates
    internal[0, place] = 0.1
    turned = mol.coordinates.to_cartesian(internal).positions[0].numpy()
    assert [amide.kind for amide in amides(mol.topology, turned)] == ["trans", "cis"]
    with pytest.raises(InputError, match="minimisation changes ALA2-NME3 from trans to cis"):
        check_minimised("mine.pdb", mol.topology, mol.positions, turned)
    mirrored = mol.positions * np.array([1.0, 1.0, -1.0])
    with pytest.raises(InputError, match="ALA2 from L to D"):
        check_minimised("mine.pdb", mol.topology, mol.positions, mirrored)


def test_a_zwitterion_in_vacuum_is_named() -> None:
    vacuum = Molecule("AG", forcefield=("amber99sbildn.xml",))
    assert charged_in_vacuum(vacuum.topology, vacuum.system) == ("ALA1", "GLY2")
    (note,) = vacuum.notes
    assert "ALA1, GLY2 are charged" in note
    assert "no implicit solvent" in note
    # Its charges cancel, and are there.
    assert charged_in_vacuum(*_parts("EA")) == ("GLU1", "ALA2")
    assert molecule("AG").notes == ()
    assert Molecule("ACE-ALA-NME", forcefield=("amber99sbildn.xml",)).notes == ()


def test_a_letter_that_is_no_prefix_is_named() -> None:
    (note,) = molecule("ACE-D-ALA-NME").notes
    assert note == "the D before ALA is a residue, ASP; D-ALA is DAL"
    assert molecule("ACE-DA-NME").notes == molecule("alanine-dipeptide").notes == ()


def test_the_first_of_several_models_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.pdb", name="ACE-ALA-NME")
    assert Molecule(str(path)).notes == ()
    atoms = [line for line in path.read_text().splitlines() if line.startswith(("ATOM", "HETATM", "TER"))]
    path.write_text("\n".join(["MODEL        1", *atoms, "ENDMDL", "MODEL        2", *atoms, "ENDMDL", "END", ""]))
    assert Molecule(str(path)).notes == (f"{path} has 2 models; the first is used",)


def test_a_ph_for_a_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.pdb", name="ACE-ALA-NME")
    with pytest.raises(InputError, match="has its hydrogens, so that a pH of 2 has no effect"):
        Molecule(str(path), ph=2.0)


@pytest.mark.parametrize("temperature", [1e9, float("inf"), float("nan"), 0.0])
def test_temperatures_beyond_sense(temperature: float) -> None:
    with pytest.raises(InputError, match="expected a temperature above 0 K, up to 10000 K"):
        Molecule("ACE-ALA-NME", temperature=temperature)


@pytest.mark.parametrize(
    ("typed", "meant"), [("gmm2-d", "gmm-2d"), ("gmm-4O", "gmm-40"), ("doublewell", "double-well")]
)
def test_a_misspelt_toy_is_not_a_sequence(typed: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        check_name(typed)
    check_name("GLY")
    check_name("ACE-ALA-NME")


def _parts(sequence: str):
    found = Molecule(sequence, forcefield=("amber99sbildn.xml",))
    return found.topology, found.system


def _tensor(positions: np.ndarray):
    import torch

    return torch.from_numpy(positions)[None]
