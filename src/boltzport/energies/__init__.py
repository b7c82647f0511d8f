"""Energies and forces of many configurations at once, by tensors or by OpenMM."""

from boltzport.energies.differentiate import EnergyAndForces
from boltzport.energies.mmff import MMFF, MMFFParameters, MMFFTerm, extract_mmff, is_mmff
from boltzport.energies.parity import Parity, ParityError, check_parity
from boltzport.energies.pool import OpenMMEnergy
from boltzport.energies.protocol import CallableEnergy, Energy, as_energy
from boltzport.energies.regularise import E_HIGH, E_MAX, RegularisedEnergy, regularise
from boltzport.energies.tensors import ForceField, Parameters, Term, extract

__all__ = [
    "E_HIGH",
    "E_MAX",
    "MMFF",
    "CallableEnergy",
    "Energy",
    "EnergyAndForces",
    "ForceField",
    "MMFFParameters",
    "MMFFTerm",
    "OpenMMEnergy",
    "Parameters",
    "Parity",
    "ParityError",
    "RegularisedEnergy",
    "Term",
    "as_energy",
    "check_parity",
    "extract",
    "extract_mmff",
    "is_mmff",
    "regularise",
]
