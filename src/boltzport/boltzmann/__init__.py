"""Molecules as targets: their Boltzmann density, and the layouts of their coordinates."""

from boltzport.boltzmann.layout import informed_layout, paper_layout
from boltzport.boltzmann.target import BoltzmannTarget

__all__ = ["BoltzmannTarget", "informed_layout", "paper_layout"]
