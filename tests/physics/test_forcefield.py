"""The tensors give OpenMM's energies and forces, term by term, for every residue and every system."""

from functools import cache

import openmm
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from boltzport.core.units import thermal_energy
from boltzport.energies import ForceField, ParityError, Term, check_parity, extract
from boltzport.molecules import Molecule
from forcefields import (
    AMBER14_GBN2,
    AMBER96_OBC1,
    AMBER99_OBC,
    CHARMM36,
    Case,
    case,
    reference,
)
from molecules import CAPPED, PAPER

FIELDS = {
    "amber96+obc1": AMBER96_OBC1,
    "amber99+obc": AMBER99_OBC,
    "amber14+gbn2": AMBER14_GBN2,
    "charmm36": CHARMM36,
}
# Methionine has a negative screening factor in GBn2, proline is a ring.
QUICK = [(name, field) for name in ("ACE-MET-NME", "ACE-PRO-NME") for field in FIELDS if field != "charmm36"]
QUICK += [("ACE-ALA-NME", "charmm36")]
SLOW = sorted({(name, field) for name in CAPPED for field in FIELDS} - set(QUICK))
VARIANTS = [f"implicit/{name}.xml" for name in ("hct", "obc1", "obc2", "gbn", "gbn2")]


def assert_agrees(system: openmm.System, positions: Tensor) -> None:
    """Per term and in total to 1e-6 of the term's size, forces to 1e-6 of their norm."""
    expected = reference(system, positions)
    field = ForceField(extract(system), compiled=False)
    terms = field.energy_terms(positions)
    assert terms.keys() == {term for term, value in expected.terms.items() if (value != 0).any()}
    for term, value in terms.items():
        torch.testing.assert_close(value, expected.terms[term], rtol=1e-6, atol=1e-6, msg=lambda m, t=term: f"{t}: {m}")
    torch.testing.assert_close(field(positions), expected.energy, rtol=1e-6, atol=1e-6)
    energies, forces = field.energy_and_forces(positions)
    torch.testing.assert_close(energies, expected.energy, rtol=1e-6, atol=1e-6)
    error = (forces - expected.forces).flatten(1).norm(dim=1)
    assert (error <= 1e-6 * expected.forces.flatten(1).norm(dim=1)).all()


def assert_case_agrees(one: Case) -> None:
    assert_agrees(one.system, one.thermal)
    assert_agrees(one.system, one.strained)


@pytest.mark.parametrize("name", PAPER)
def test_systems_of_the_paper(name: str) -> None:
    assert_case_agrees(case(name))


@pytest.mark.parametrize(("name", "field"), QUICK)
def test_some_residues(name: str, field: str) -> None:
    assert_case_agrees(case(name, FIELDS[field]))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "field"), SLOW)
def test_every_residue(name: str, field: str) -> None:
    assert_case_agrees(case(name, FIELDS[field]))


def test_there_are_twenty_residues() -> None:
    assert len(CAPPED) == 20
    assert len(QUICK) + len(SLOW) == 80


@pytest.mark.parametrize("solvent", VARIANTS)
def test_every_born_model(solvent: str) -> None:
    assert_case_agrees(case("ACE-CYS-NME", ("amber14-all.xml", solvent)))


@pytest.mark.parametrize("solvent", ["implicit/obc2.xml", "implicit/gbn2.xml"])
def test_salt_and_dielectric_constants(solvent: str) -> None:
    one = case("ACE-ALA-NME", AMBER96_OBC1)
    salty = _with_solvent(solvent, implicitSolventKappa=1.3, soluteDielectric=2.0, solventDielectric=40.0)
    assert extract(salty).born.kappa == 1.3
    assert_agrees(salty, torch.cat([one.thermal, one.strained]))


def test_without_surface_term() -> None:
    one = case("ACE-ALA-NME", AMBER96_OBC1)
    assert_agrees(_with_solvent("implicit/obc1.xml", sasaMethod=None), torch.cat([one.thermal, one.strained]))


def _with_solvent(solvent: str, **arguments: object) -> openmm.System:
    topology = Molecule("ACE-ALA-NME").openmm_topology
    return openmm.app.ForceField("amber96.xml", solvent).createSystem(topology, **arguments)


@pytest.mark.parametrize("files", [AMBER99_OBC, AMBER96_OBC1], ids=["amber99+obc", "amber96+obc1"])
def test_an_atom_inside_another(files: tuple[str, ...]) -> None:
    """OpenMM's own OBC force treats it as no other model does."""
    one = case("ACE-ALA-NME", files)
    positions = one.thermal.clone()
    positions[:, 19] = positions[:, 0] + torch.tensor([0.002, -0.002, 0.0015], dtype=torch.float64)
    assert_agrees(one.system, positions)


def test_ryckaert_bellemans() -> None:
    system = openmm.System()
    force = openmm.RBTorsionForce()
    for _ in range(6):
        system.addParticle(12.0)
    force.addTorsion(0, 1, 2, 3, 9.28, 12.16, -13.12, -3.06, 26.24, -31.5)
    force.addTorsion(4, 3, 2, 1, 1.0, 0.0, -2.0, 0.5, 0.0, 0.25)
    force.addTorsion(1, 2, 3, 4, 0.3, 1.0, 2.0, 3.0, 4.0, 5.0)
    force.addTorsion(5, 4, 0, 2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    system.addForce(force)
    positions = torch.randn(20, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 0.15
    assert_agrees(system, positions)


def test_several_forces_of_one_kind_add_up() -> None:
    one = case("ACE-ALA-NME", AMBER99_OBC)
    system = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(one.system))
    extra = openmm.HarmonicBondForce()
    extra.addBond(0, 9, 0.31, 1234.0)
    system.addForce(extra)
    charges = openmm.NonbondedForce()
    for index in range(system.getNumParticles()):
        charges.addParticle(0.01 * index, 0.2, 0.1)
    charges.addException(2, 0, 0.3, 0.25, 0.2)
    system.addForce(charges)
    assert_agrees(system, one.thermal)


@pytest.mark.parametrize("name", PAPER)
def test_float32_is_close(name: str) -> None:
    """Within 0.01 kT, and the forces to a part in ten thousand."""
    one = case(name)
    exact = ForceField(extract(one.system), compiled=False)
    energies, forces = exact.energy_and_forces(one.thermal)
    rounded = exact.energy_and_forces(one.thermal.float())
    kt = thermal_energy(300.0)
    assert rounded.energies.dtype == torch.float32
    assert (rounded.energies.double() - energies).abs().max() < 0.01 * kt
    assert (exact(one.thermal.float()).double() - energies).abs().max() < 0.01 * kt
    assert (rounded.forces.double() - forces).norm() < 1e-4 * forces.norm()


@cache
def charmm_field() -> ForceField:
    return ForceField(extract(case("ACE-ALA-NME", CHARMM36).system), compiled=False)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), scale=st.floats(0.0, 0.05))
def test_energy_does_not_see_rotations_and_translations(seed: int, scale: float) -> None:
    one = case("ACE-ALA-NME", CHARMM36)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(one.thermal.shape, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=generator, dtype=torch.float64)).Q
    rotation = rotation * torch.linalg.det(rotation)
    positions = one.thermal + scale * noise
    field = charmm_field()
    moved = positions @ rotation.T + torch.randn(3, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(field(moved), field(positions), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("files", [AMBER14_GBN2, CHARMM36], ids=["amber14+gbn2", "charmm36"])
def test_autograd_sees_the_forces(files: tuple[str, ...]) -> None:
    one = case("ACE-ALA-NME", files)
    field = ForceField(extract(one.system), compiled=False)
    positions = one.strained[:3].clone().requires_grad_()
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    (gradient,) = torch.autograd.grad((weights * field(positions)).sum(), positions)
    expected = -weights[:, None, None] * field.energy_and_forces(positions).forces
    torch.testing.assert_close(gradient, expected)
    small = one.thermal[:1].clone().requires_grad_()
    assert torch.autograd.gradcheck(field, small, eps=1e-6, rtol=1e-5, atol=1e-3, fast_mode=True)


def test_parity_check_passes_and_says_so() -> None:
    one = case("ACE-ALA-NME", AMBER96_OBC1)
    field = ForceField(extract(one.system), compiled=False)
    parity = check_parity(one.system, field, one.thermal)
    assert "agrees" in parity.message
    assert all(difference.agrees for difference in parity.differences)
    assert {difference.name for difference in parity.differences} >= {term.value for term in field.constants.terms}
    assert "agrees" in check_parity(one.system, field, one.thermal.float()).message


@pytest.mark.parametrize(
    ("kind", "change", "term"),
    [
        (
            openmm.HarmonicBondForce,
            lambda f: f.setBondParameters(3, *f.getBondParameters(3)[:2], 0.2, 2e5),
            Term.BONDS,
        ),
        (
            openmm.PeriodicTorsionForce,
            lambda f: f.setTorsionParameters(0, 1, 4, 6, 8, 2, 0.0, 7.0),
            Term.TORSIONS,
        ),
        (openmm.NonbondedForce, lambda f: f.setParticleParameters(5, -0.5, 0.3, 0.9), Term.NONBONDED),
        (openmm.GBSAOBCForce, lambda f: f.setSolventDielectric(70.0), Term.BORN),
    ],
    ids=lambda value: value.name if isinstance(value, Term) else "",
)
def test_parity_check_names_the_term_that_differs(kind: type, change: object, term: Term) -> None:
    one = case("ACE-ALA-NME", AMBER99_OBC)
    changed = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(one.system))
    change(next(force for force in changed.getForces() if isinstance(force, kind)))
    field = ForceField(extract(one.system), compiled=False)
    with pytest.raises(ParityError, match=term.value):
        check_parity(changed, field, one.thermal)
