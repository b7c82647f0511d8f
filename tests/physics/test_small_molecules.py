"""Small molecules from SMILES and files: their stereochemistry is kept, and what is not supported is named."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from rdkit import Chem, rdBase

from boltzport.core.errors import InputError
from boltzport.core.layout import LayoutKind
from boltzport.flows import MolecularConfig, build_flow
from boltzport.molecules import Kind, Molecule, count_atoms, directory_name
from boltzport.molecules.smiles import Source, source_of
from boltzport.targets.boltzmann import BoltzmannTarget, build_space, flat_rotors, open_energy
from molecules import molecule

STEREO = {
    "alanine": "CC(=O)N[C@@H](C)C(=O)NC",
    "trans": "F/C=C/Cl",
    "cis": r"F/C=C\Cl",
    "oxime": "C/C=N/O",
    "sulfoxide": "C[S@](=O)CC",
    "centres beside a double bond": r"C[C@H](F)/C=C\[C@@H](C)O",
    "zwitterion": "[NH3+][C@@H](C)C(=O)[O-]",
}
"""Molecules without rings: a flow without training tears rings, which then have no stereochemistry."""


def target_of(small: Molecule, kind: LayoutKind = LayoutKind.HARMONIC) -> BoltzmannTarget:
    energy = open_energy(small).evaluate
    space = build_space(kind, small, energy)
    return BoltzmannTarget(small, energy, space.layout, space.map)


def smiles_of(small: Molecule, positions: np.ndarray) -> str:
    """SMILES that RDKit reads from a structure in nm, and from nothing else."""
    assert small.sdf is not None
    chemical = Chem.MolFromMolBlock(small.sdf, removeHs=False)
    for atom, position in enumerate(10.0 * positions):
        chemical.GetConformer().SetAtomPosition(atom, position.astype(float).tolist())
    with rdBase.BlockLogs():
        Chem.AssignStereochemistryFrom3D(chemical, replaceExistingTags=True)
        return Chem.MolToSmiles(Chem.RemoveHs(chemical))


def canonical(smiles: str) -> str:
    return Chem.MolToSmiles(Chem.MolFromSmiles(smiles))


@pytest.mark.parametrize("smiles", STEREO.values(), ids=STEREO)
@pytest.mark.parametrize("kind", [LayoutKind.HARMONIC, LayoutKind.INFORMED])
def test_samples_keep_what_the_smiles_says(smiles: str, kind: LayoutKind) -> None:
    small = molecule(smiles)
    assert smiles_of(small, small.positions) == canonical(smiles)
    target = target_of(small, kind)
    generator = torch.Generator().manual_seed(0)
    flow = build_flow(target.layout, MolecularConfig(), generator=generator, compiled=False)
    points = flow.sample(60, generator=generator).detach().double()
    allowed = target.evaluate(points).log_p > -1e7  # clashes of a flow without training have no stereochemistry
    assert allowed.sum() > 5
    found = {smiles_of(small, frame) for frame in target.positions(points[allowed]).detach().numpy()}
    assert found == {canonical(smiles)}


RINGS = {
    "cis, trans": ("C[C@H]1CCCC[C@H]1O", "C[C@H]1CCCC[C@@H]1O"),
    "four stereocentres": ("C1C[C@@H](F)[C@H](Cl)[C@@H](O)[C@@H]1N", "C1C[C@@H](F)[C@H](Cl)[C@H](O)[C@@H]1N"),
    "a fused ring": ("C[C@@]12CCCC[C@H]1CCO2", "C[C@]12CCCC[C@H]1CCO2"),
}
"""Molecules with stereocentres in rings, each with a diastereomer whose atoms have the same order."""


@pytest.mark.parametrize(("smiles", "other"), RINGS.values(), ids=RINGS)
def test_a_stereocentre_in_a_ring_keeps_what_the_smiles_says(smiles: str, other: str) -> None:
    """In the harmonic approximation, in which rings mostly stay closed; a diastereomer is outside the support.

    At the bond where a ring is cut the energy keeps the stereochemistry: torn rings are left out.
    """
    small, target = molecule(smiles), target_of(molecule(smiles))
    reference = torch.from_numpy(small.positions)[None]
    middle = target.from_internal(small.coordinates.to_internal(reference).coordinates)
    generator = torch.Generator().manual_seed(0)
    noise = torch.linspace(0.3, 1.0, 400)[:, None] * torch.randn(
        400, middle.shape[1], generator=generator, dtype=middle.dtype
    )
    widths = torch.tensor([axis.width if math.isfinite(axis.width) else 0.5 for axis in target.layout])
    points = middle + widths.clamp(max=1.0) * noise
    log_p = target.evaluate(points).log_p
    allowed = log_p > float(target.evaluate(middle).log_p) - 2.5 * middle.shape[1]
    assert allowed.sum() > 40
    assert {smiles_of(small, frame) for frame in target.positions(points[allowed]).detach().numpy()} == {
        canonical(smiles)
    }
    there = torch.from_numpy(molecule(other).positions)[None]
    assert smiles_of(small, there[0].numpy()) == canonical(other)
    inverted = target.from_internal(small.coordinates.to_internal(there).coordinates)
    assert (target.evaluate(inverted).log_p == -torch.inf).all()


MACROCYCLES = ["C[C@@H]1CC(=O)O[C@H](C)CC(=O)O[C@H](C)CC(=O)O1", "C1CCCCCCCCCCC1"]
"""Rings of twelve bonds: the cyclic trimer of (R)-3-hydroxybutyric acid, and cyclododecane, which has no rotor."""


@pytest.mark.parametrize("smiles", MACROCYCLES)
def test_a_large_ring_stays_closed_in_the_harmonic_approximation(smiles: str) -> None:
    target = target_of(molecule(f"smiles:{smiles}"))
    generator = torch.Generator().manual_seed(0)
    flow = build_flow(target.layout, MolecularConfig(), generator=generator, compiled=False)
    # Only methyl groups turn.
    assert len(flow.torsions) == smiles.count("(C)") + smiles.startswith("C[")
    with torch.no_grad():
        points, log_q = flow.sample_and_log_prob(500, generator=generator)
        log_p, log_volume = target.evaluate(points)
    log_weights = log_p + log_volume - log_q.double()
    # With torsions that are independent of each other it would be below by tens of thousands.
    assert float(log_weights.max() - log_weights.median()) < 50.0


@pytest.mark.parametrize(
    "smiles",
    ["F/C=C/Cl", r"F/C=C\Cl", "C/C=N/O", "C/C=C1/CCC[C@@H](C)C1", "C1CCCCC/C=C/CCCC1", r"C1CCCCC/C=C\CCCC1"],
)
def test_a_double_bond_keeps_its_side(smiles: str) -> None:
    small = molecule(smiles)
    map_ = small.coordinates
    (place,) = [i for i, column in enumerate(map_.columns) if column.kind is Kind.TORSION and _is_sided(column)]
    column = map_.columns[place]
    assert tuple(sorted(column.atoms[1:3])) in small.stereo.double_bonds
    reference = map_.to_internal(torch.from_numpy(small.positions)[None]).coordinates
    assert column.lower < float(reference[0, place]) < column.upper
    assert not column.circular
    across = reference.repeat(4, 1)
    across[:, place] = 0.5 * (column.lower + column.upper) + torch.tensor([-1.4, -0.3, 0.6, 1.5])
    positions = map_.to_cartesian(across).positions
    torch.testing.assert_close(map_.to_internal(positions).coordinates, across)
    if not any(bond.IsInRing() for bond in Chem.MolFromSmiles(smiles).GetBonds()):
        assert {smiles_of(small, frame) for frame in positions.numpy()} == {canonical(smiles)}
    target = target_of(small)
    across[:, place] += math.pi
    there = map_.to_internal(map_.to_cartesian(across).positions).coordinates
    assert (target.evaluate(target.from_internal(there)).log_p == -torch.inf).all()
    assert target.evaluate(target.from_internal(reference)).log_p.isfinite().all()


def _is_sided(column) -> bool:
    return column.sign == 0 and column.upper - column.lower < 1.5 * math.pi


def test_what_turns_and_what_does_not() -> None:
    def turning(smiles: str) -> list[tuple[int, ...]]:
        small = molecule(smiles)
        return [tuple(sorted(small.coordinates.columns[i].atoms[1:3])) for i in flat_rotors(small)]

    def free(smiles: str) -> set[tuple[int, ...]]:
        small = molecule(smiles)
        layout = target_of(small).layout
        columns = zip(small.coordinates.columns, layout, strict=True)
        uniform = [column for column, axis in columns if not math.isfinite(axis.width)]
        return {tuple(sorted(column.atoms[1:3])) for column in uniform}

    # The amide turns as in a peptide, and its whole circle is allowed; the two methyls are free.
    assert turning("CC(=O)NC") == [(1, 3)]
    assert {(0, 1), (3, 4)} <= free("CC(=O)NC")
    amide = molecule("CC(=O)NC").coordinates.columns[flat_rotors(molecule("CC(=O)NC"))[0]]
    assert amide.circular
    # A tertiary amide has no preferred side, and a bond between two rings has four minima: both are free.
    assert (1, 3) in free("CC(=O)N(C)CC")
    assert free("c1ccccc1-c1ccccc1") == {(5, 6)}
    assert turning("c1ccccc1-c1ccccc1") == []
    # A ring of three atoms has no torsion about its double bond.
    assert molecule("C1=CC1").coordinates.dimension == 15
    # Neither a double bond nor a ring is.
    assert free("C=C(F)F") == set()
    assert free("c1ccccc1") == set()


def test_a_smiles_is_built_alike_every_time() -> None:
    first, second = Molecule("OCC(=O)NC"), Molecule("OCC(=O)NC")
    np.testing.assert_array_equal(first.positions, second.positions)
    assert (first.name, first.forcefield, str(first.constraints)) == ("OCC(=O)NC", ("MMFF94",), "none")
    assert first.topology.label(0) == "MOL1.O1"
    assert count_atoms("OCC(=O)NC") == first.topology.n_atoms == 13


def test_a_file_of_a_run_gives_the_same_molecule(tmp_path: Path) -> None:
    small = molecule(r"C[C@H](F)/C=C\[C@@H](C)O")
    assert small.sdf is not None
    (tmp_path / "molecule.sdf").write_text(small.sdf)
    again = Molecule.from_sdf(tmp_path / "molecule.sdf", name=small.name, temperature=310.0)
    np.testing.assert_allclose(again.positions, small.positions, atol=1e-12)
    assert again.coordinates.columns == small.coordinates.columns
    assert again.topology == small.topology
    assert (again.name, again.temperature) == (small.name, 310.0)
    assert again.reference_energy() == pytest.approx(small.reference_energy(), abs=1e-9)


def test_sdf_and_mol2_files(tmp_path: Path) -> None:
    small = molecule("C[C@H](O)C(=O)[O-]")
    assert small.sdf is not None
    sdf, mol2 = tmp_path / "lactate.sdf", tmp_path / "ethane.mol2"
    sdf.write_text(small.sdf)
    read = Molecule(str(sdf))
    assert (read.name, read.topology.elements) == (str(sdf), small.topology.elements)
    assert smiles_of(read, read.positions) == canonical("C[C@H](O)C(=O)[O-]")
    np.testing.assert_allclose(read.positions, small.positions, atol=1e-4)
    mol2.write_text(METHANOL)
    methanol = Molecule(str(mol2))
    assert methanol.topology.elements == (6, 8, 1, 1, 1, 1)
    assert methanol.topology.label(1) == "MOL1.O2"
    flat = tmp_path / "flat.mol"
    flat.write_text(Chem.MolToMolBlock(Chem.MolFromSmiles("CCO")))
    assert Molecule(str(flat)).topology.n_atoms == 9
    (tmp_path / "two.sdf").write_text(2 * small.sdf)
    with pytest.raises(InputError, match=r"two.sdf holds 2 molecules; expected one"):
        Molecule(str(tmp_path / "two.sdf"))
    (tmp_path / "bad.sdf").write_text("nothing")
    with pytest.raises(InputError, match=r"bad.sdf could not be read as an SDF file"):
        Molecule(str(tmp_path / "bad.sdf"))


@pytest.mark.parametrize(
    ("smiles", "message"),
    [
        ("CC(=O)NC(C)C(=O)NC", "the stereocentre C5 is not specified; write @ or @@"),
        ("CC=CC", r"the double bond C2=C3 is not specified; write / and \\"),
        ("ON=CC", "the double bond N2=C3 is not specified"),
        ("CS(=O)CC", "the stereocentre S2 is not specified"),
        ("CC(=O", r"'CC\(=O' is not a valid SMILES"),
        ("C(C)(C)(C)(C)C", "the atom C1 has too many bonds for its charge"),
        ("OB(O)C", "the atom B2 is boron, for which MMFF94 has no parameters"),
        ("C[Mg]C", "the atom Mg2 is magnesium"),
        ("[Na+].[Cl-]", "has 2 molecules; expected one: leave out salts"),
        ("CC#N", "the atom C2 is linear"),
        ("[CH2]C", "the atom C1 is a radical"),
        ("C*", r"the atom \*2 is not an element"),
        ("smiles:XX", "'XX' is not a valid SMILES"),
        ("foo", "'foo' is not a system, a file or a SMILES, and not a sequence"),
        ("nowhere/ligand.sdf", "no such file: nowhere/ligand.sdf"),
        ("nowhere/peptide.pdb", "no such file: nowhere/peptide.pdb"),
    ],
)
def test_what_is_not_supported_is_named(smiles: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        Molecule(smiles)
    assert "\n" not in str(error.value)


def test_a_small_molecule_has_one_force_field() -> None:
    with pytest.raises(InputError, match="whose force field is MMFF94 without constraints"):
        Molecule("CCO", forcefield=("amber14-all.xml",))
    with pytest.raises(InputError, match="whose force field is MMFF94 without constraints"):
        Molecule("CCO", constraints="hbonds")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("aldp", Source.NAME),
        ("ELIL", Source.SEQUENCE),
        ("CCC", Source.SEQUENCE),
        ("CCCC", Source.SEQUENCE),
        ("ACE-ALA-NME", Source.SEQUENCE),
        ("smiles:CCCC", Source.SMILES),
        ("cyclo(GGG)", Source.SEQUENCE),
        ("CCCl", Source.SMILES),
        ("ACE-a-NME", Source.SEQUENCE),
        ("CCO", Source.SMILES),
        ("F/C=C/F", Source.SMILES),
        ("CC.O", Source.SMILES),
        ("ligand.SDF", Source.SMALL_FILE),
        ("x/ligand.mol2", Source.SMALL_FILE),
        ("x/peptide.pdb", Source.PDB),
        ("x.y", Source.PDB),
        ("alanine", Source.SEQUENCE),
    ],
)
def test_what_a_text_is(text: str, source: Source) -> None:
    assert source_of(text) is source


def test_without_rdkit_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("build", "chemistry", "smiles"):
        monkeypatch.setattr(f"boltzport.molecules.{name}.has_rdkit", lambda: False)
    with pytest.raises(InputError, match=r'needs RDKit: install it with pip install "boltzport\[smiles\]"'):
        Molecule("CC(=O)N")
    with pytest.raises(InputError, match=r"unknown letter 'O' .* a SMILES needs RDKit"):
        Molecule("CCO")
    assert source_of("ELIL") is Source.SEQUENCE


def test_names_of_directories_are_safe_and_differ() -> None:
    smiles = ["F/C=C/F", r"F/C=C\F", "c1ccccc1", "C1CCCCC1", "[O-]C(=O)C", "smiles:CCCC", 50 * "CO"]
    names = [directory_name(text) for text in smiles]
    assert len({name.lower() for name in names}) == len(smiles)
    assert all(len(name) < 60 and name.replace("-", "").replace("_", "").isalnum() for name in names)
    assert directory_name("data/ligand.sdf") == "ligand"


METHANOL = """@<TRIPOS>MOLECULE
methanol
 6 5 0 0 0
SMALL
NO_CHARGES

@<TRIPOS>ATOM
 1 C1 -0.3636  0.0104  0.0078 C.3 1 MOL 0.0
 2 O1  0.8937 -0.6260 -0.0090 O.3 1 MOL 0.0
 3 H1 -0.5120  0.4868  0.9911 H 1 MOL 0.0
 4 H2 -1.1571 -0.7352 -0.1565 H 1 MOL 0.0
 5 H3 -0.3972  0.7695 -0.7906 H 1 MOL 0.0
 6 H4  1.5362  0.0945 -0.0428 H 1 MOL 0.0
@<TRIPOS>BOND
 1 1 2 1
 2 1 3 1
 3 1 4 1
 4 1 5 1
 5 2 6 1
"""
