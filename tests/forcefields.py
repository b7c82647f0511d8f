"""Force fields on molecules, with configurations to compare them on, for several tests."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import openmm
import openmm.app
import torch
from openmm import unit
from torch import Tensor

from boltzport.energies import Term
from boltzport.molecules import Constraints, Molecule

AMBER96_OBC1 = ("amber96.xml", "implicit/obc1.xml")
AMBER99_OBC = ("amber99sbildn.xml", "amber99_obc.xml")
AMBER14_GBN2 = ("amber14-all.xml", "implicit/gbn2.xml")
CHARMM36 = ("charmm36.xml",)

TERMS = {
    openmm.HarmonicBondForce: Term.BONDS,
    openmm.HarmonicAngleForce: Term.ANGLES,
    openmm.PeriodicTorsionForce: Term.TORSIONS,
    openmm.RBTorsionForce: Term.RB_TORSIONS,
    openmm.CustomTorsionForce: Term.IMPROPERS,
    openmm.CMAPTorsionForce: Term.CMAP,
    openmm.NonbondedForce: Term.NONBONDED,
    openmm.CustomNonbondedForce: Term.NONBONDED,
    openmm.CustomBondForce: Term.NONBONDED,
    openmm.GBSAOBCForce: Term.BORN,
    openmm.CustomGBForce: Term.BORN,
}


@dataclass(frozen=True)
class Case:
    """A system and configurations of it, float64 in nm.

    `thermal` are snapshots of dynamics at 300 K; `strained` are the same pushed by 0.03 nm and by 0.1 nm.
    """

    system: openmm.System
    thermal: Tensor
    strained: Tensor


@dataclass(frozen=True)
class Reference:
    """What OpenMM's Reference platform says of configurations, in kJ/mol and nm."""

    terms: dict[Term, Tensor]
    energy: Tensor
    forces: Tensor


@cache
def case(name: str, files: tuple[str, ...] = ()) -> Case:
    """A peptide or a named system; without files with the force field that it is named for."""
    if files == CHARMM36:
        system, positions = _charmm(name)
    else:
        plain = Constraints.NONE if files else None
        molecule = Molecule(name, forcefield=files, constraints=plain)
        system, positions = molecule.system, molecule.positions
    thermal = _dynamics(system, positions, snapshots=4)
    noise = torch.randn(len(thermal), *positions.shape, generator=torch.Generator().manual_seed(1))
    noise = noise.to(torch.float64)
    return Case(system, thermal, torch.cat([thermal + 0.03 * noise, thermal + 0.1 * noise]))


def reference(system: openmm.System, positions: Tensor) -> Reference:
    """Energies by term and in total, and forces, on OpenMM's Reference platform."""
    copy = openmm.XmlSerializer.deserialize(openmm.XmlSerializer.serialize(system))
    forces = copy.getForces()
    for group, force in enumerate(forces):
        force.setForceGroup(group)
    context = _context(copy)
    terms = {TERMS[type(force)]: [] for force in forces if type(force) in TERMS}
    energies, gradients = [], []
    for configuration in positions.numpy():
        context.setPositions(configuration)
        sums = dict.fromkeys(terms, 0.0)
        for group, force in enumerate(forces):
            if type(force) in TERMS:
                state = context.getState(getEnergy=True, groups={group})
                sums[TERMS[type(force)]] += state.getPotentialEnergy()._value
        for term, value in sums.items():
            terms[term].append(value)
        state = context.getState(getEnergy=True, getForces=True)
        energies.append(state.getPotentialEnergy()._value)
        gradients.append(state.getForces(asNumpy=True)._value)
    columns = {term: torch.tensor(values, dtype=torch.float64) for term, values in terms.items()}
    return Reference(columns, torch.tensor(energies, dtype=torch.float64), torch.from_numpy(np.array(gradients)))


def _context(system: openmm.System) -> openmm.Context:
    integrator = openmm.LangevinMiddleIntegrator(300.0, 5.0, 0.001)
    integrator.setRandomNumberSeed(7)
    return openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))


def _dynamics(system: openmm.System, positions: np.ndarray, *, snapshots: int) -> Tensor:
    context = _context(system)
    context.setPositions(positions)
    context.setVelocitiesToTemperature(300.0, 7)
    frames = []
    for _ in range(snapshots):
        context.getIntegrator().step(50)
        frames.append(context.getState(getPositions=True).getPositions(asNumpy=True).value_in_unit(unit.nanometer))
    return torch.from_numpy(np.array(frames))


@cache
def _charmm_xml() -> openmm.app.ForceField:
    return openmm.app.ForceField(*CHARMM36)


def _charmm(name: str) -> tuple[openmm.System, np.ndarray]:
    """A capped residue under CHARMM, whose caps are patches: they belong to the residue they cap."""
    molecule = Molecule(name, forcefield=("amber99sbildn.xml",), constraints=Constraints.NONE)
    merged = openmm.app.Topology()
    middle = list(molecule.openmm_topology.residues())[1]
    residue = merged.addResidue(middle.name, merged.addChain())
    copies = {atom: merged.addAtom(atom.name, atom.element, residue) for atom in molecule.openmm_topology.atoms()}
    for bond in molecule.openmm_topology.bonds():
        merged.addBond(copies[bond[0]], copies[bond[1]])
    templates = {residue: "ALAD"} if middle.name == "ALA" else {}
    system = _charmm_xml().createSystem(merged, nonbondedMethod=openmm.app.NoCutoff, residueTemplates=templates)
    return system, molecule.positions
