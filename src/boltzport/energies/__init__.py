"""Energies and forces of many configurations: by tensors, OpenMM, ASE calculators, xTB, or a function.

`boltzport.train(molecule, energy=...)` takes any of them.

Example:
    >>> import boltzport as bp
    >>> list(bp.energies.ENERGIES)
    ['gfn2-xtb', 'gfn1-xtb']
"""

from boltzport.energies.accepted import EnergyLike, name_of
from boltzport.energies.ase import ASE, ASEEnergy
from boltzport.energies.differentiate import EnergyAndForces
from boltzport.energies.expensive import ExpensiveEnergy
from boltzport.energies.mmff import MMFF, MMFFParameters, MMFFTerm, extract_mmff, is_mmff
from boltzport.energies.named import ENERGIES, check_energy_name, describe_named, named_energy
from boltzport.energies.parity import Parity, ParityError, check_parity
from boltzport.energies.pool import OpenMMEnergy
from boltzport.energies.processes import ProcessEnergy
from boltzport.energies.protocol import CallableEnergy, Energy, as_energy
from boltzport.energies.regularise import E_HIGH, E_MAX, RegularisedEnergy, regularise
from boltzport.energies.tensors import ForceField, Parameters, Term, extract
from boltzport.energies.xtb import XTB

__all__ = [
    "ASE",
    "ENERGIES",
    "E_HIGH",
    "E_MAX",
    "MMFF",
    "XTB",
    "ASEEnergy",
    "CallableEnergy",
    "Energy",
    "EnergyAndForces",
    "EnergyLike",
    "ExpensiveEnergy",
    "ForceField",
    "MMFFParameters",
    "MMFFTerm",
    "OpenMMEnergy",
    "Parameters",
    "Parity",
    "ParityError",
    "ProcessEnergy",
    "RegularisedEnergy",
    "Term",
    "as_energy",
    "check_energy_name",
    "check_parity",
    "describe_named",
    "extract",
    "extract_mmff",
    "is_mmff",
    "name_of",
    "named_energy",
    "regularise",
]
