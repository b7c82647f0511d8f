"""Handedness, by computations that share no code with the z-matrix."""

from pathlib import Path

import numpy as np
import openmm.app
import pytest
import torch
from rdkit import Chem

from boltzport.molecules import Centre, Kind, Molecule, Topology, build_zmatrix
from boltzport.molecules.chirality import tetrahedral_centres
from boltzport.molecules.topology import from_openmm
from laws import random_coordinates
from molecules import CAPPED, PAPER, molecule


def bonded(mol: Molecule) -> dict[int, list[int]]:
    """Neighbours from OpenMM's own bonds."""
    found: dict[int, list[int]] = {atom.index: [] for atom in mol.openmm_topology.atoms()}
    for first, second in mol.openmm_topology.bonds():
        found[first.index].append(second.index)
        found[second.index].append(first.index)
    return found


def triple(positions: np.ndarray, centre: int, first: int, second: int, third: int) -> np.ndarray:
    """Signed volume of three bond vectors."""
    a, b, c = (positions[:, atom] - positions[:, centre] for atom in (first, second, third))
    return np.einsum("ni,ni->n", a, np.cross(b, c))


@pytest.mark.parametrize("name", PAPER)
def test_no_structure_of_the_whole_box_changes_hands(name: str) -> None:
    mol = molecule(name)
    drawn = mol.coordinates.to_cartesian(random_coordinates(mol.coordinates, 2000, seed=0)).positions.numpy()
    reference = mol.positions[None]
    with_four = {atom for atom, others in bonded(mol).items() if len(others) == 4}
    assert {centre.atom for centre in mol.centres} == with_four
    for centre in mol.centres:
        assert len(centre.signs) == 2
        for sibling in centre.signs:
            atoms = (centre.atom, centre.axis, centre.first, sibling)
            expected = np.sign(triple(reference, *atoms))
            assert (np.sign(triple(drawn, *atoms)) == expected).all(), mol.topology.label(centre.atom)


@pytest.mark.parametrize("name", [*PAPER, "ACE-PRO-NME", "ACE-THR-NME", "ACE-VAL-NME", "PKG"])
def test_signed_volumes_keep_their_sign_near_the_reference(name: str) -> None:
    """Any four neighbours, in any order, with stiff coordinates moved by tens of degrees and the rest free."""
    mol = molecule(name)
    columns = mol.coordinates.columns
    reference = mol.coordinates.to_internal(torch.from_numpy(mol.positions)[None]).coordinates
    drawn = random_coordinates(mol.coordinates, 500, seed=1)
    noise = 2 * torch.rand(drawn.shape, dtype=drawn.dtype, generator=torch.Generator().manual_seed(2)) - 1
    widths = torch.tensor([0.02 if column.kind is Kind.BOND else 0.3 for column in columns])
    stiff = torch.tensor([column.kind is not Kind.TORSION or column.sibling for column in columns])
    positions = mol.coordinates.to_cartesian(torch.where(stiff, reference + widths * noise, drawn)).positions.numpy()
    in_a_ring = {mol.topology.find(1, name) for name in ("N", "CA", "CB", "CG", "CD")} if "PRO" in name else set()
    checked = 0
    for centre, (a, b, c, _) in {atom: n for atom, n in bonded(mol).items() if len(n) == 4}.items():
        if centre in in_a_ring:
            continue  # a ring bond is not a coordinate: its far end moves freely here
        expected = np.sign(triple(mol.positions[None], centre, a, b, c))
        assert (np.sign(triple(positions, centre, a, b, c)) == expected).all(), mol.topology.label(centre)
        checked += 1
    assert checked > 0


def cip_codes(mol: Molecule, path: Path) -> dict[str, str]:
    """R or S by rdkit, from the PDB file that a user would get."""
    mol.write_pdb(path)
    read = Chem.MolFromPDBFile(str(path), removeHs=False, sanitize=False)
    for atom in read.GetAtoms():
        if atom.GetSymbol() == "N" and sum(bond.GetBondTypeAsDouble() for bond in atom.GetBonds()) == 4:
            atom.SetFormalCharge(1)
    Chem.SanitizeMol(read)
    Chem.AssignStereochemistryFrom3D(read)
    centres = [(atom.GetPDBResidueInfo(), atom) for atom in read.GetAtoms() if atom.HasProp("_CIPCode")]
    return {
        f"{info.GetResidueName().strip()}.{info.GetName().strip()}": atom.GetProp("_CIPCode") for info, atom in centres
    }


@pytest.mark.parametrize("name", CAPPED)
def test_built_residues_are_the_natural_ones(name: str, tmp_path: Path) -> None:
    residue = name.split("-")[1]
    expected = {} if residue == "GLY" else {f"{residue}.CA": "R" if residue == "CYS" else "S"}
    expected |= {"ILE": {"ILE.CB": "S"}, "THR": {"THR.CB": "R"}}.get(residue, {})
    assert cip_codes(molecule(name), tmp_path / "built.pdb") == expected
    labels = [molecule(name).topology.label(centre.atom) for centre in molecule(name).centres if centre.chiral]
    assert labels == [key.replace(".", "2.") for key in expected]


def test_names_agree_with_a_measured_protein() -> None:
    """Villin, which comes with OpenMM: every built residue numbers its branches and hydrogens as it does."""
    villin = openmm.app.PDBFile(str(Path(openmm.app.__file__).parent / "data" / "test.pdb"))
    protein = openmm.app.Modeller(villin.topology, villin.positions)
    protein.delete([residue for residue in villin.topology.residues() if residue.name in ("HOH", "CL", "Cl")])
    topology = from_openmm(protein.topology)
    positions = np.array(protein.positions.value_in_unit(openmm.unit.nanometer))
    measured = signs(topology, tetrahedral_centres(topology, build_zmatrix(topology), positions))
    compared = 0
    for name in CAPPED:
        # The file follows Amber's library, which numbers proline's hydrogens the other way round.
        if name != "ACE-PRO-NME":
            for key, sign in signs(molecule(name).topology, molecule(name).centres).items():
                assert measured.get(key, sign) == sign, key
                compared += key in measured
    assert compared > 60


def signs(topology: Topology, centres: tuple[Centre, ...]) -> dict[tuple[str, ...], int]:
    return {
        (
            topology.residue_names[topology.residues[centre.atom]],
            *(topology.names[atom] for atom in (centre.atom, centre.first, sibling)),
        ): sign
        for centre in centres
        for sibling, sign in centre.signs.items()
    }


# Modeller's hydrogens of these come out in the wrong order, or flat, before they are minimised.
AWKWARD = ["GP", "CR", "CN", "CI", "CK", "MI", "LL", "AG-NME", "RI-NME", "MC-NME", "GKY", "IAF", "CLG", "CHQ", "TSWD"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*AWKWARD, *CAPPED])
def test_hydrogens_are_numbered_clockwise(name: str) -> None:
    mol = molecule(name)
    for group in mol.permutation_groups:
        (centre,) = [centre for centre in mol.centres if centre.atom == group.centre]
        kept = [centre.signs[atom] for atom in group.atoms if atom in centre.signs]
        assert kept == [1, -1][: len(kept)], mol.topology.label(centre.atom)


def test_carboxylates_amides_and_rings_are_left_free() -> None:
    for name, sibling in (("GLU", "OE2"), ("ASN", "HD22"), ("PHE", "CD2"), ("ARG", "NH2"), ("LYN", "HZ2")):
        mol = molecule(f"ACE-{name}-NME")
        placing = mol.topology.find(1, sibling)
        (column,) = [c for c in mol.coordinates.columns if c.kind is Kind.TORSION and c.atoms[-1] == placing]
        assert column.sibling, name
        assert column.circular, name


def test_a_mirror_image_stays_a_mirror_image(tmp_path: Path) -> None:
    """A D residue in a file is kept as it is: all signs are turned."""
    mol = molecule("ACE-ILE-NME")
    mirrored = openmm.app.Modeller(mol.openmm_topology, mol.positions * [1, 1, -1] * openmm.unit.nanometer)
    path = tmp_path / "mirror.pdb"
    with path.open("w") as file:
        openmm.app.PDBFile.writeFile(mirrored.topology, mirrored.positions, file, keepIds=True)
    read = Molecule(str(path))
    expected = {key: -sign for key, sign in signs(mol.topology, mol.centres).items()}
    assert signs(read.topology, read.centres) == expected
