"""MMFF94 as tensors gives RDKit's energies term by term, and RDKit's forces."""

from collections import defaultdict

import numpy as np
import openmm
import pytest
import torch
from rdkit import Chem

from boltzport.core.errors import InputError
from boltzport.energies import MMFF, MMFFTerm, extract_mmff, is_mmff
from boltzport.molecules import Molecule
from boltzport.molecules.mmff import mmff_system
from boltzport.targets.boltzmann import open_energy
from molecules import molecule
from nci import SWITCHES, drug_like, embedded, rdkit_energy, rdkit_gradient

UNUSUAL = [
    "C[N+](C)(C)CC(=O)[O-]",
    "CC#N",
    "CC#CC",
    "C=C=C",
    "CN=[N+]=[N-]",
    "C[N+]#[C-]",
    "C1CC1C",
    "C1CCC1",
    "CC1=CC2CC1O2",
    "C[S@](=O)CC",
    "CS(=O)(=O)N",
    "COP(=O)(O)O",
    "[O-][N+](=O)c1ccccc1",
    "NC(=[NH2+])NC",
    "C[Si](C)(C)CI",
    "Brc1ccsc1",
    "[O-]c1ccc[nH+]c1",
    "C1CCCCCCCCCCC1",
]
"""Charges, zwitterions, small and large rings, linear groups, and every element but H, C, N and O at least once."""


def strained(chemical: Chem.Mol, seed: int) -> np.ndarray:
    """Two structures in nm, neither of them near a minimum."""
    generator = np.random.default_rng(seed)
    there = 0.1 * chemical.GetConformer().GetPositions()
    return there + np.array([0.005, 0.02])[:, None, None] * generator.standard_normal((2, *there.shape))


def compare_terms(chemical: Chem.Mol, seed: int) -> None:
    positions = strained(chemical, seed)
    terms = MMFF.from_system(mmff_system(chemical)).energy_terms(torch.from_numpy(positions))
    ours: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(len(positions)))
    for term, values in terms.items():
        ours[SWITCHES[term]] += values.numpy()
    for switch in set(SWITCHES.values()):
        expected = [rdkit_energy(chemical, frame, switch) for frame in positions]
        # Relative to the size of a term, or to 1 kJ/mol where its parts cancel.
        np.testing.assert_allclose(ours[switch], expected, rtol=1e-6, atol=1e-6, err_msg=switch)


@pytest.mark.parametrize("smiles", UNUSUAL)
def test_terms_of_unusual_molecules_are_those_of_rdkit(smiles: str) -> None:
    chemical = embedded(Chem.MolFromSmiles(smiles))
    assert chemical is not None
    compare_terms(chemical, 0)


def test_terms_of_drug_like_molecules_are_those_of_rdkit() -> None:
    found = list(drug_like(8))
    for seed, chemical in enumerate(found):
        compare_terms(chemical, seed)
    assert len(found) == 8


@pytest.mark.slow
def test_terms_of_two_hundred_drug_like_molecules_are_those_of_rdkit() -> None:
    found = 0
    for seed, chemical in enumerate(drug_like(200)):
        compare_terms(chemical, seed)
        found += 1
    assert found == 200


@pytest.mark.parametrize("smiles", ["C[S@](=O)CC", "CC#CC", "NC(=[NH2+])NC", "Brc1ccsc1"])
def test_forces_are_those_of_rdkit_and_slopes_of_the_energy(smiles: str) -> None:
    chemical = embedded(Chem.MolFromSmiles(smiles))
    assert chemical is not None
    positions = strained(chemical, 3)
    field, there = MMFF.from_system(mmff_system(chemical)), torch.from_numpy(positions)
    energies, forces = field.energy_and_forces(there)
    torch.testing.assert_close(energies, field(there))
    for frame, force in zip(positions, forces.numpy(), strict=True):
        np.testing.assert_allclose(-force, rdkit_gradient(chemical, frame), rtol=1e-6, atol=1e-5)
    direction = torch.randn(there.shape, generator=torch.Generator().manual_seed(0), dtype=there.dtype)
    step = 1e-6 * direction
    slope = (field(there + step) - field(there - step)) / 2e-6
    torch.testing.assert_close(slope, -(forces * direction).sum((1, 2)), rtol=1e-6, atol=1e-3)
    (gradient,) = torch.autograd.grad(field(there.requires_grad_()).sum(), there)
    torch.testing.assert_close(-gradient, forces)


def test_a_molecule_agrees_with_openmm_and_with_rdkit() -> None:
    acid = molecule("OC(=O)c1ccccc1OC(C)=O")
    with open_energy(acid) as energy:
        assert isinstance(energy.evaluate, MMFF)
        assert energy.backend == "tensors"
        assert "agrees with OpenMM" in energy.message
    assert acid.sdf is not None
    chemical = Chem.MolFromMolBlock(acid.sdf, removeHs=False)
    assert acid.reference_energy() == pytest.approx(rdkit_energy(chemical, acid.positions), rel=1e-9)
    assert np.abs(rdkit_gradient(chemical, acid.positions)).max() < 1.0


def test_batches_of_any_size_keep_their_order_in_both_precisions() -> None:
    ethanol = molecule("CCO")
    field = MMFF.from_system(ethanol.system)
    noise = torch.randn(5000, 9, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positions = torch.from_numpy(ethanol.positions) + 0.02 * noise
    energies, forces = field.energy_and_forces(positions)
    torch.testing.assert_close(energies[4990:], field(positions[4990:]))
    torch.testing.assert_close(forces[4990:], field.energy_and_forces(positions[4990:]).forces)
    torch.testing.assert_close(field(positions.float()).double(), energies, rtol=1e-4, atol=0.02)
    assert field(positions[:0]).shape == (0,)
    total = torch.stack(list(field.energy_terms(positions).values())).sum(0)
    torch.testing.assert_close(total, energies)


def test_coincident_atoms_have_finite_energies_and_forces() -> None:
    ethanol = molecule("CCO")
    field = MMFF.from_system(ethanol.system)
    positions = torch.from_numpy(ethanol.positions)[None].repeat(2, 1, 1)
    positions[0, 8] = positions[0, 0]
    positions[1] = 0.0
    energies, forces = field.energy_and_forces(positions.float())
    assert energies.isfinite().all()
    assert forces.isfinite().all()
    assert energies[0] > 1e4


def test_a_wrong_shape_or_unit_is_refused() -> None:
    ethanol = molecule("CCO")
    field = MMFF.from_system(ethanol.system)
    with pytest.raises(InputError, match="are they in angstrom"):
        field(10.0 * torch.from_numpy(ethanol.positions)[None])
    with pytest.raises(InputError, match="9 atoms, got positions of 5"):
        field(torch.zeros(1, 5, 3))


def test_only_mmff_is_read_as_mmff() -> None:
    peptide = Molecule("ACE-ALA-NME")
    assert not is_mmff(peptide.system)
    assert not is_mmff(openmm.System())
    with pytest.raises(InputError, match="is not a term of MMFF94"):
        extract_mmff(peptide.system)
    system = molecule("CCO").system
    assert is_mmff(system)
    assert MMFFTerm.LINEAR not in extract_mmff(system).terms
