"""Boltzmann ensembles of molecules by constrained mass transport.

import boltzport as bp

molecule = bp.Molecule("ACE-ALA-NME")
model = bp.train(molecule, preset="quick")
ensemble = model.sample(100_000)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "CMT",
    "FAB",
    "TABG",
    "CallableEnergy",
    "Couplings",
    "Density",
    "Energy",
    "Ensemble",
    "Estimate",
    "ForceField",
    "ForwardKL",
    "Model",
    "Molecular",
    "Molecule",
    "OpenMMEnergy",
    "Reference",
    "Results",
    "ReverseKL",
    "WeightsWarning",
    "__version__",
    "load",
    "train",
]

if TYPE_CHECKING:
    from boltzport.ensemble import Ensemble, WeightsWarning
    from boltzport.flow import CouplingConfig as Couplings
    from boltzport.flow import MolecularConfig as Molecular
    from boltzport.forcefield import CallableEnergy, Energy, ForceField, OpenMMEnergy
    from boltzport.methods import CMTConfig as CMT
    from boltzport.methods import FABConfig as FAB
    from boltzport.methods import ForwardKLConfig as ForwardKL
    from boltzport.methods import ReverseKLConfig as ReverseKL
    from boltzport.methods import TABGConfig as TABG
    from boltzport.metrics import Estimate, Results
    from boltzport.molecule import Molecule
    from boltzport.reference import Reference
    from boltzport.run import Model, load, train
    from boltzport.targets import Density

_PLACES = {
    "CMT": ("methods", "CMTConfig"),
    "FAB": ("methods", "FABConfig"),
    "TABG": ("methods", "TABGConfig"),
    "ForwardKL": ("methods", "ForwardKLConfig"),
    "ReverseKL": ("methods", "ReverseKLConfig"),
    "Couplings": ("flow", "CouplingConfig"),
    "Molecular": ("flow", "MolecularConfig"),
    "CallableEnergy": ("forcefield", "CallableEnergy"),
    "Energy": ("forcefield", "Energy"),
    "ForceField": ("forcefield", "ForceField"),
    "OpenMMEnergy": ("forcefield", "OpenMMEnergy"),
    "Density": ("targets", "Density"),
    "Ensemble": ("ensemble", "Ensemble"),
    "WeightsWarning": ("ensemble", "WeightsWarning"),
    "Estimate": ("metrics", "Estimate"),
    "Results": ("metrics", "Results"),
    "Molecule": ("molecule", "Molecule"),
    "Reference": ("reference", "Reference"),
    "Model": ("run", "Model"),
    "load": ("run", "load"),
    "train": ("run", "train"),
}
"""Package of each public name, and its name there; a package is imported when one of its names is first used."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'boltzport' has no attribute {name!r}")
    package, there = _PLACES[name]
    found = getattr(import_module(f"boltzport.{package}"), there)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
