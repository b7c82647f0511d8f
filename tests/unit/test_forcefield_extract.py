"""What the extraction takes, and how it refuses the rest."""

import openmm
import openmm.app
import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.energies import ForceField, Term, extract
from boltzport.energies.tensors.expressions import match, normalise
from forcefields import AMBER14_GBN2, AMBER96_OBC1, AMBER99_OBC, case


def copy_of(system: openmm.System) -> openmm.System:
    return openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(system))


def force_of(system: openmm.System, kind: type) -> openmm.Force:
    return next(force for force in system.getForces() if isinstance(force, kind))


def particles(count: int = 4) -> openmm.System:
    system = openmm.System()
    for _ in range(count):
        system.addParticle(1.0)
    return system


def custom_torsion(text: str) -> openmm.System:
    force = openmm.CustomTorsionForce(text)
    force.addPerTorsionParameter("k")
    force.addPerTorsionParameter("theta0")
    force.addTorsion(0, 1, 2, 3, [2.0, 3.0])
    system = particles()
    system.addForce(force)
    return system


def with_force(force: openmm.Force) -> openmm.System:
    system = particles()
    system.addForce(force)
    return system


def cut_off(method: int) -> openmm.System:
    force = openmm.NonbondedForce()
    for _ in range(4):
        force.addParticle(0.1, 0.3, 0.2)
    force.setNonbondedMethod(method)
    return with_force(force)


def with_offsets() -> openmm.System:
    force = openmm.NonbondedForce()
    for _ in range(4):
        force.addParticle(0.1, 0.3, 0.2)
    force.addGlobalParameter("scale", 1.0)
    force.addParticleParameterOffset("scale", 0, 0.1, 0.0, 0.0)
    return with_force(force)


def virtual_site() -> openmm.System:
    system = particles()
    system.setVirtualSite(3, openmm.TwoParticleAverageSite(0, 1, 0.5, 0.5))
    return system


def periodic_bonds() -> openmm.System:
    force = openmm.HarmonicBondForce()
    force.setUsesPeriodicBoundaryConditions(True)
    return with_force(force)


def global_torsion() -> openmm.System:
    system = custom_torsion("k*(theta-theta0)^2")
    system.getForce(0).addGlobalParameter("lambda", 1.0)
    return system


def other_born_radius() -> openmm.System:
    system = copy_of(case("ACE-ALA-NME", AMBER96_OBC1).system)
    force = force_of(system, openmm.CustomGBForce)
    name, text, kind = force.getComputedValueParameters(1)
    force.setComputedValueParameters(1, name, text.replace("psi^3", "psi^5"), kind)
    return system


def other_neck() -> openmm.System:
    system = copy_of(case("ACE-ALA-NME", AMBER14_GBN2).system)
    force = force_of(system, openmm.CustomGBForce)
    name, text, kind = force.getComputedValueParameters(0)
    force.setComputedValueParameters(0, name, text.replace("1000000", "2000000"), kind)
    return system


def other_dielectric() -> openmm.System:
    """The self energy and the pair energy do not belong together."""
    system = copy_of(case("ACE-ALA-NME", AMBER96_OBC1).system)
    force = force_of(system, openmm.CustomGBForce)
    text, kind = force.getEnergyTermParameters(0)
    force.setEnergyTermParameters(0, text.replace("78.5", "60"), kind)
    return system


REFUSED = {
    "CustomExternalForce": lambda: with_force(openmm.CustomExternalForce("x^2")),
    "CustomBondForce": lambda: with_force(openmm.CustomBondForce("r^4")),
    "CustomNonbondedForce": lambda: with_force(openmm.CustomNonbondedForce("1/r^9")),
    "CustomTorsionForce": lambda: custom_torsion("k*(theta-theta0)^4"),
    "CustomTorsionForce with global": global_torsion,
    "RMSDForce": lambda: with_force(openmm.RMSDForce([openmm.Vec3(0, 0, 0)] * 4)),
    "LCPOForce": lambda: with_force(openmm.LCPOForce()),
    "NonbondedForce with a cutoff": lambda: cut_off(openmm.NonbondedForce.CutoffNonPeriodic),
    "NonbondedForce with a cutoff or periodic": lambda: cut_off(openmm.NonbondedForce.PME),
    "parameter offsets": with_offsets,
    "virtual sites": virtual_site,
    "HarmonicBondForce with periodic boundaries": periodic_bonds,
    "the Born radius": other_born_radius,
    "the descreening integral": other_neck,
    "do not match": other_dielectric,
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_by_name_and_points_to_openmm(name: str) -> None:
    with pytest.raises(InputError, match="OpenMMEnergy") as caught:
        extract(REFUSED[name]())
    assert name in str(caught.value)


def test_names_a_force_as_its_maker_did() -> None:
    force = openmm.CustomExternalForce("x^2")
    force.setName("restraint")
    with pytest.raises(InputError, match="CustomExternalForce 'restraint'"):
        extract(with_force(force))


def test_two_solvents_are_one_too_many() -> None:
    system = copy_of(case("ACE-ALA-NME", AMBER99_OBC).system)
    system.addForce(openmm.XmlSerializer.clone(force_of(system, openmm.GBSAOBCForce)))
    with pytest.raises(InputError, match="two generalized Born"):
        extract(system)


def test_constants_are_folded() -> None:
    """Excluded pairs and terms without strength are gone; torsions over the same atoms are one."""
    one = case("ACE-ALA-NME", AMBER96_OBC1)
    parameters = extract(one.system)
    nonbonded = force_of(one.system, openmm.NonbondedForce)
    pairs = {tuple(sorted(pair)) for pair in parameters.nonbonded.atoms.tolist()}
    assert len(pairs) == len(parameters.nonbonded.atoms)
    for index in range(nonbonded.getNumExceptions()):
        i, j, charge, _, epsilon = nonbonded.getExceptionParameters(index)
        silent = charge._value == 0 and epsilon._value == 0
        assert (tuple(sorted((i, j))) in pairs) == (not silent)
    torsions = force_of(one.system, openmm.PeriodicTorsionForce)
    assert len(parameters.torsions.atoms) < torsions.getNumTorsions()
    assert len({tuple(row) for row in parameters.torsions.atoms.tolist()}) == len(parameters.torsions.atoms)


def test_constrained_bonds_have_no_term() -> None:
    system = case("alanine-tetrapeptide").system
    bonds = {tuple(sorted(pair)) for pair in extract(system).bonds.atoms.tolist()}
    constraints = [system.getConstraintParameters(k)[:2] for k in range(system.getNumConstraints())]
    assert constraints
    assert bonds.isdisjoint(tuple(sorted(pair)) for pair in constraints)


def test_empty_system_has_no_energy() -> None:
    system = particles()
    system.addForce(openmm.CMMotionRemover())
    parameters = extract(system)
    assert parameters.terms == ()
    field = ForceField(parameters, compiled=False)
    energies, forces = field.energy_and_forces(torch.zeros(3, 4, 3))
    assert (energies == 0).all()
    assert (forces == 0).all()


@pytest.mark.parametrize(
    ("text", "periodic"),
    [
        ("k*(theta-theta0)^2", False),
        ("k * min(dtheta, 2*pi-dtheta)^2; dtheta = abs(theta-theta0); pi = 3.1415926535", True),
    ],
)
def test_impropers_with_and_without_the_circle(text: str, periodic: bool) -> None:
    system = custom_torsion(text)
    parameters = extract(system)
    assert parameters.impropers.periodic == periodic
    positions = torch.randn(40, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    field = ForceField(parameters, compiled=False)
    energies, forces = field.energy_and_forces(positions)
    for configuration, energy, force in zip(positions.numpy(), energies, forces, strict=True):
        context.setPositions(configuration)
        state = context.getState(getEnergy=True, getForces=True)
        assert float(energy) == pytest.approx(state.getPotentialEnergy()._value, rel=1e-6)
        expected = torch.from_numpy(state.getForces(asNumpy=True)._value)
        torch.testing.assert_close(force, expected, rtol=1e-6, atol=1e-6 * float(expected.norm()))


def test_terms_are_named() -> None:
    assert extract(case("ACE-ALA-NME", AMBER96_OBC1).system).terms == (
        Term.BONDS,
        Term.ANGLES,
        Term.TORSIONS,
        Term.NONBONDED,
        Term.BORN,
    )


def test_expressions_match_whatever_the_spacing_and_order_of_definitions() -> None:
    assert match("a*b ; b = r+1; a=r ;", "a*b;a=r;b=r+1") == {}
    assert match("a*b; a=r; b=r+2", "a*b;a=r;b=r+1") is None
    assert match("a*b; a=r", "a*b;a=r;b=r+1") is None
    assert match("x*1e-3", "x*{n}") == {"n": 1e-3}
    assert match("x*y", "x*{n}") is None
    assert normalise("").formula == ""
