"""MMFF94 as tensors: the terms of a small molecule, read from its OpenMM System."""

from boltzport.energies.mmff.energy import MMFF
from boltzport.energies.mmff.extract import extract_mmff, is_mmff
from boltzport.energies.mmff.parameters import MMFFParameters, MMFFTerm, Terms

__all__ = ["MMFF", "MMFFParameters", "MMFFTerm", "Terms", "extract_mmff", "is_mmff"]
