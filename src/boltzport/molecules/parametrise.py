"""Parametrisation of a molecule: the OpenMM System, and the structure of minimal energy."""

import difflib
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.core.errors import InputError
from boltzport.molecules.torsions import standard_name

LARGE = 100
"""Number of atoms above which minimisation in double precision alone would take minutes."""


class Constraints(StrEnum):
    """Which bonds have a constant length."""

    NONE = "none"
    HBONDS = "hbonds"


def load_forcefield(names: tuple[str, ...]) -> openmm.app.ForceField:
    """Load an OpenMM force field from names such as `amber96.xml` or `implicit/obc1.xml`, or from XML files.

    Raises:
        InputError: A name is neither a file nor one of OpenMM's force fields, or the file is not a force field.
    """
    shipped = shipped_forcefields()
    files = []
    for name in names:
        candidate = name if name.endswith(".xml") or Path(name).is_file() else f"{name}.xml"
        if candidate not in shipped and not Path(candidate).is_file():
            near = difflib.get_close_matches(candidate, shipped, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"unknown force field {name!r}: expected one of OpenMM's XML names or an XML file{hint}")
        files.append(candidate)
    try:
        return _read_shipped(*files) if set(files) <= set(shipped) else openmm.app.ForceField(*files)
    except Exception as error:  # OpenMM's XML reader raises arbitrary exceptions for malformed elements
        raise InputError(f"the force field {'+'.join(names)} cannot be read: {' '.join(str(error).split())}") from error


@cache
def _read_shipped(*files: str) -> openmm.app.ForceField:
    """Read OpenMM's own files with a cache: CHARMM's XML takes seconds to read, and the files do not change."""
    return openmm.app.ForceField(*files)


def shipped_forcefields() -> list[str]:
    """Sorted names of the force fields that come with OpenMM."""
    folder = Path(openmm.app.__file__).parent / "data"
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*.xml"))
    return sorted(name for name in names if "hydrogens" not in name and name not in ("residues.xml", "pdbNames.xml"))


def create_system(
    topology: openmm.app.Topology, forcefield: openmm.app.ForceField, *, constraints: Constraints, names: str
) -> openmm.System:
    """Create a System without cutoff, in vacuum or in the implicit solvent of the force field.

    Raises:
        InputError: The force field has no parameters for the molecule.
    """
    topology = merge_caps(topology, forcefield)
    try:
        return forcefield.createSystem(
            topology,
            nonbondedMethod=openmm.app.NoCutoff,
            constraints=openmm.app.HBonds if constraints is Constraints.HBONDS else None,
            removeCMMotion=False,
            rigidWater=False,
            residueTemplates=_ambiguous(topology, forcefield),
        )
    except Exception as error:  # OpenMM raises bare exceptions for ambiguous and missing templates alike
        reason = str(error).split("For more information")[0].strip()
        raise InputError(f"the force field {names} does not fit the molecule: {reason}") from error


def merge_caps(topology: openmm.app.Topology, forcefield: openmm.app.ForceField) -> openmm.app.Topology:
    """Adapt the topology to the force field: CHARMM's caps are patches of the neighbouring residues.

    Atoms keep their order. For force fields with residues ACE and NME, like Amber's, the topology is unchanged.
    """
    names = {residue.name for residue in topology.residues()}
    if not names & {"ACE", "NME"} or names & {"ACE", "NME"} <= set(forcefield._templates):
        return topology
    merged = openmm.app.Topology()
    atoms: dict[openmm.app.topology.Atom, openmm.app.topology.Atom] = {}
    for chain in topology.chains():
        added = merged.addChain(chain.id)
        residues = list(chain.residues())
        current = None
        for i, residue in enumerate(residues):
            if current is None or not (residue.name == "NME" or residues[i - 1].name == "ACE"):
                own = residues[min(i + 1, len(residues) - 1)] if residue.name == "ACE" else residue
                current = merged.addResidue(own.name, added, own.id)
            for atom in residue.atoms():
                atoms[atom] = merged.addAtom(atom.name, atom.element, current)
    for first, second in topology.bonds():
        merged.addBond(atoms[first], atoms[second])
    return merged


def _ambiguous(
    topology: openmm.app.Topology, forcefield: openmm.app.ForceField
) -> dict[openmm.app.topology.Residue, str]:
    """Templates of ambiguous residues: CHARMM has alanine dipeptide as a protein (ALAD) and as a drug (AANM)."""
    residues = list(topology.residues())
    if (
        "ALAD" in forcefield._templates
        and len(residues) == 1
        and standard_name(residues[0].name) == "ALA"
        and len(residues[0]) == 22
    ):
        return {residues[0]: "ALAD"}
    return {}


def constrained_bonds(system: openmm.System) -> dict[tuple[int, int], float]:
    """Length in nm of each constrained distance, by pair of atoms, lower index first."""
    lengths = {}
    for i in range(system.getNumConstraints()):
        first, second, length = system.getConstraintParameters(i)
        lengths[min(first, second), max(first, second)] = length.value_in_unit(openmm.unit.nanometer)
    return lengths


def total_charge(system: openmm.System) -> float | None:
    """Sum of the charges of the atoms in elementary charges; None if no force has charges."""
    forces = [force for force in system.getForces() if isinstance(force, openmm.NonbondedForce)]
    if not forces:
        return None
    charges = (force.getParticleParameters(i)[0] for force in forces for i in range(force.getNumParticles()))
    return float(sum(charge.value_in_unit(openmm.unit.elementary_charge) for charge in charges))


def minimise(system: openmm.System, positions: Float[np.ndarray, "atoms 3"]) -> Float[np.ndarray, "atoms 3"]:
    """Positions in nm of the nearest energy minimum; deterministic.

    The Reference platform computes in double precision on one thread, so that sums do not depend on timing.
    Large molecules are first brought near the minimum by the faster CPU platform, also on one thread.

    Raises:
        InputError: The minimisation does not reach a finite energy.
    """
    large = len(positions) > LARGE
    if large:
        rough = _context(system, positions, platform="CPU", properties={"Threads": "1", "DeterministicForces": "true"})
        openmm.LocalEnergyMinimizer.minimize(rough, tolerance=1.0)
        positions = _positions(rough)
    context = _context(system, positions)
    openmm.LocalEnergyMinimizer.minimize(context, tolerance=1e-2, maxIterations=200 if large else 1000)
    # The minimiser leaves constrained bonds 1e-8 nm off; internal coordinates hold them exactly.
    context.applyConstraints(1e-13)
    energy = _energy(context)
    if not np.isfinite(energy):
        raise InputError(
            f"the minimised structure has the energy {energy} kJ/mol; expected a finite one: do atoms overlap?"
        )
    return _positions(context)


def potential_energy(system: openmm.System, positions: Float[np.ndarray, "atoms 3"]) -> float:
    """Potential energy in kJ/mol, in double precision."""
    return _energy(_context(system, positions))


def _context(
    system: openmm.System,
    positions: np.ndarray,
    *,
    platform: str = "Reference",
    properties: Mapping[str, str] | None = None,
) -> openmm.Context:
    """Raises an InputError if OpenMM does not take the system."""
    try:
        context = openmm.Context(
            system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform(platform), dict(properties or {})
        )
        context.setPositions(positions)
    except openmm.OpenMMException as error:
        raise InputError(f"OpenMM does not take this system: {' '.join(str(error).split())}") from error
    return context


def _energy(context: openmm.Context) -> float:
    energy = context.getState(energy=True).getPotentialEnergy()
    return float(energy.value_in_unit(openmm.unit.kilojoule_per_mole))


def _positions(context: openmm.Context) -> np.ndarray:
    found = context.getState(positions=True).getPositions(asNumpy=True)
    return np.array(found.value_in_unit(openmm.unit.nanometer), dtype=np.float64)
