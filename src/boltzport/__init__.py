"""Boltzmann ensembles of molecules by constrained mass transport.

import boltzport as bp

molecule = bp.Molecule("ACE-ALA-NME")
model = bp.train(molecule, preset="quick")
ensemble = model.sample(100_000)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

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
    "energies",
    "load",
    "mix",
    "thermodynamics",
    "train",
]

if TYPE_CHECKING:
    from boltzport import energies
    from boltzport.analysis.metrics import Estimate, Results
    from boltzport.energies import CallableEnergy, Energy, ForceField, OpenMMEnergy
    from boltzport.ensembles import Ensemble, WeightsWarning, thermodynamics
    from boltzport.ensembles.reference import Reference
    from boltzport.experiments import Model, load, mix, train
    from boltzport.flows import CouplingConfig as Couplings
    from boltzport.flows import MolecularConfig as Molecular
    from boltzport.molecules import Molecule
    from boltzport.targets import Density
    from boltzport.training.methods import CMTConfig as CMT
    from boltzport.training.methods import FABConfig as FAB
    from boltzport.training.methods import ForwardKLConfig as ForwardKL
    from boltzport.training.methods import ReverseKLConfig as ReverseKL
    from boltzport.training.methods import TABGConfig as TABG

_PLACES = {
    "CMT": ("training.methods", "CMTConfig"),
    "FAB": ("training.methods", "FABConfig"),
    "TABG": ("training.methods", "TABGConfig"),
    "ForwardKL": ("training.methods", "ForwardKLConfig"),
    "ReverseKL": ("training.methods", "ReverseKLConfig"),
    "Couplings": ("flows", "CouplingConfig"),
    "Molecular": ("flows", "MolecularConfig"),
    "CallableEnergy": ("energies", "CallableEnergy"),
    "Energy": ("energies", "Energy"),
    "ForceField": ("energies", "ForceField"),
    "OpenMMEnergy": ("energies", "OpenMMEnergy"),
    "energies": ("energies", ""),
    "Density": ("targets", "Density"),
    "Ensemble": ("ensembles", "Ensemble"),
    "WeightsWarning": ("ensembles", "WeightsWarning"),
    "Estimate": ("analysis.metrics", "Estimate"),
    "Results": ("analysis.metrics", "Results"),
    "Molecule": ("molecules", "Molecule"),
    "Reference": ("ensembles.reference", "Reference"),
    "Model": ("experiments", "Model"),
    "load": ("experiments", "load"),
    "mix": ("experiments", "mix"),
    "thermodynamics": ("ensembles", "thermodynamics"),
    "train": ("experiments", "train"),
}
"""Package of each public name, and its name there, empty for the package itself; a package is imported when one of its
names is first used."""


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'boltzport' has no attribute {name!r}")
    package, there = _PLACES[name]
    module = import_module(f"boltzport.{package}")
    found = getattr(module, there) if there else module
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
