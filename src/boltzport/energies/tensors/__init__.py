"""An OpenMM force field as tensors: energies and forces of many configurations at once."""

from boltzport.energies.tensors.energy import ForceField
from boltzport.energies.tensors.extract import extract
from boltzport.energies.tensors.parameters import Parameters, Term

__all__ = ["ForceField", "Parameters", "Term", "extract"]
