"""A force field put on a molecule: the OpenMM system, and the structure that minimises its energy."""

import difflib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import numpy as np
import openmm
import openmm.app
import openmm.unit
from jaxtyping import Float

from boltzport.errors import InputError


LARGE = 100
"""Number of atoms beyond which double precision alone would take minutes to minimise."""


class Constraints(StrEnum):
    """Which bonds have a constant length."""

    NONE = "none"
    HBONDS = "hbonds"


def load_forcefield(names: tuple[str, ...]) -> openmm.app.ForceField:
    """OpenMM force field from names such as `amber96.xml` or `implicit/obc1.xml`, or from paths of XML files.

    Raises:
        InputError: A name is neither a file nor one that OpenMM ships, or the file is not a force field.
    """
    shipped = shipped_forcefields()
    files = []
    for name in names:
        candidate = name if name.endswith(".xml") else f"{name}.xml"
        if candidate not in shipped and not Path(candidate).is_file():
            near = difflib.get_close_matches(candidate, shipped, n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise InputError(f"unknown force field {name!r}: expected one of OpenMM's XML names or an XML file{hint}")
        files.append(candidate)
    try:
        return openmm.app.ForceField(*files)
    except Exception as error:  # OpenMM's XML reader raises whatever the malformed element led to
        raise InputError(f"the force field {'+'.join(names)} cannot be read: {' '.join(str(error).split())}") from error


def shipped_forcefields() -> list[str]:
    """Names of the force fields that come with OpenMM, sorted."""
    folder = Path(openmm.app.__file__).parent / "data"
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*.xml"))
    return sorted(name for name in names if "hydrogens" not in name and name not in ("residues.xml", "pdbNames.xml"))


def create_system(
    topology: openmm.app.Topology, forcefield: openmm.app.ForceField, *, constraints: Constraints, names: str
) -> openmm.System:
    """System without cutoff, in vacuum or in the implicit solvent of the force field.

    Raises:
        InputError: The force field has no parameters for the molecule.
    """
    try:
        return forcefield.createSystem(
            topology,
            nonbondedMethod=openmm.app.NoCutoff,
            constraints=openmm.app.HBonds if constraints is Constraints.HBONDS else None,
            removeCMMotion=False,
        )
    except ValueError as error:
        reason = str(error).split("For more information")[0].strip()
        raise InputError(f"the force field {names} does not fit the molecule: {reason}") from error


def constrained_bonds(system: openmm.System) -> dict[tuple[int, int], float]:
    """Length in nm of each constrained distance, by its pair of atoms, lower index first."""
    lengths = {}
    for i in range(system.getNumConstraints()):
        first, second, length = system.getConstraintParameters(i)
        lengths[min(first, second), max(first, second)] = length.value_in_unit(openmm.unit.nanometer)
    return lengths


def minimise(system: openmm.System, positions: Float[np.ndarray, "atoms 3"]) -> Float[np.ndarray, "atoms 3"]:
    """Positions in nm of the nearest energy minimum, the same on every call.

    The Reference platform computes in double precision on one thread, so that sums do not depend on timing;
    a large molecule is brought near its minimum by the faster CPU platform first, on one thread too.

    Raises:
        InputError: The minimisation does not end in a finite energy.
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
            f"minimising the structure ended at the energy {energy} kJ/mol; expected a finite one: "
            "are atoms on top of each other?"
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
    context = openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform(platform), dict(properties or {})
    )
    context.setPositions(positions)
    return context


def _energy(context: openmm.Context) -> float:
    energy = context.getState(energy=True).getPotentialEnergy()
    return float(energy.value_in_unit(openmm.unit.kilojoule_per_mole))


def _positions(context: openmm.Context) -> np.ndarray:
    found = context.getState(positions=True).getPositions(asNumpy=True)
    return np.array(found.value_in_unit(openmm.unit.nanometer), dtype=np.float64)
