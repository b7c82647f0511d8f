"""Read the terms of MMFF94 from an OpenMM System whose forces have their names."""

from typing import Any

import openmm
import torch

from boltzport.core.errors import InputError
from boltzport.energies.mmff.parameters import CONSTANTS, MMFFParameters, MMFFTerm, Terms

PREFIX = "MMFF94 "
_WORDS = {
    openmm.CustomBondForce: "Bond",
    openmm.CustomCompoundBondForce: "Bond",
    openmm.CustomAngleForce: "Angle",
    openmm.CustomTorsionForce: "Torsion",
}


def is_mmff(system: openmm.System) -> bool:
    """Whether a System has MMFF94 forces by name, and no others."""
    names = [force.getName() for force in system.getForces()]
    known = {PREFIX + term.value for term in MMFFTerm}
    return bool(names) and set(names) <= known


def term_of(force: openmm.Force) -> MMFFTerm:
    """The term that a force of the System is."""
    return MMFFTerm(force.getName().removeprefix(PREFIX))


def extract_mmff(system: openmm.System) -> MMFFParameters:
    """Read the terms of a System.

    Args:
        system: System that a small molecule has, `Molecule.system`.

    Raises:
        InputError: A force is not a term of MMFF94; the message names it.
    """
    found = {}
    for force in system.getForces():
        name = force.getName()
        if not is_mmff(system):
            raise InputError(f"{name} is not a term of MMFF94; use ForceField or OpenMMEnergy for this system")
        rows = _rows(force)
        if tuple(rows.names) != CONSTANTS[term_of(force)]:
            raise InputError(f"{name}: expected the constants {CONSTANTS[term_of(force)]}, got {rows.names}")
        if rows.atoms:
            found[term_of(force)] = Terms(
                atoms=torch.tensor(rows.atoms, dtype=torch.long),
                constants=torch.tensor(rows.constants, dtype=torch.float64),
            )
    return MMFFParameters(atoms=system.getNumParticles(), terms=found)


class _Rows:
    """Atoms and constants of a custom force, row by row."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.atoms: list[list[int]] = []
        self.constants: list[tuple[float, ...]] = []


def _rows(force: Any) -> _Rows:
    word = _WORDS[type(force)]
    count = getattr(force, f"getNumPer{word}Parameters")()
    rows = _Rows([getattr(force, f"getPer{word}ParameterName")(i) for i in range(count)])
    read, number = getattr(force, f"get{word}Parameters"), getattr(force, f"getNum{word}s")()
    for i in range(number):
        *atoms, constants = read(i)
        rows.atoms.append(list(atoms[0]) if type(force) is openmm.CustomCompoundBondForce else atoms)
        rows.constants.append(tuple(constants))
    return rows
