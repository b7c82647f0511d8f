"""Energies and forces of many configurations at once, by tensors or by OpenMM."""

from boltzport.forcefield.benchmark import BenchmarkSubject, benchmark_table, run_benchmark
from boltzport.forcefield.differentiate import EnergyAndForces
from boltzport.forcefield.energy import ForceField
from boltzport.forcefield.extract import extract
from boltzport.forcefield.parameters import Parameters, Term
from boltzport.forcefield.parity import Parity, ParityError, check_parity
from boltzport.forcefield.pool import OpenMMEnergy
from boltzport.forcefield.protocol import CallableEnergy, Energy, as_energy
from boltzport.forcefield.regularise import E_HIGH, E_MAX, RegularisedEnergy, regularise

__all__ = [
    "E_HIGH",
    "E_MAX",
    "BenchmarkSubject",
    "CallableEnergy",
    "Energy",
    "EnergyAndForces",
    "ForceField",
    "OpenMMEnergy",
    "Parameters",
    "Parity",
    "ParityError",
    "RegularisedEnergy",
    "Term",
    "as_energy",
    "benchmark_table",
    "check_parity",
    "extract",
    "regularise",
    "run_benchmark",
]
