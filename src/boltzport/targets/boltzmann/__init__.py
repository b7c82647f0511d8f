"""Molecules as targets: their energy, their Boltzmann density, and the layouts of their coordinates."""

from boltzport.targets.boltzmann.energies import CountedEnergy, OpenEnergy, open_energy
from boltzport.targets.boltzmann.harmonic import HarmonicMap, Space, harmonic_space
from boltzport.targets.boltzmann.layout import INFORMED_MARGIN, informed_layout, paper_layout
from boltzport.targets.boltzmann.matching import PER_COORDINATE, matched, nearest_normal
from boltzport.targets.boltzmann.relax import relaxed
from boltzport.targets.boltzmann.rotors import Rotors, rotors
from boltzport.targets.boltzmann.space import build_space
from boltzport.targets.boltzmann.stiffness import flat_rotors
from boltzport.targets.boltzmann.target import BoltzmannTarget

__all__ = [
    "INFORMED_MARGIN",
    "PER_COORDINATE",
    "BoltzmannTarget",
    "CountedEnergy",
    "HarmonicMap",
    "OpenEnergy",
    "Rotors",
    "Space",
    "build_space",
    "flat_rotors",
    "harmonic_space",
    "informed_layout",
    "matched",
    "nearest_normal",
    "open_energy",
    "paper_layout",
    "relaxed",
    "rotors",
]
