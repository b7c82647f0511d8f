"""Targets: densities to be sampled, independent of molecules."""

from boltzport.targets.base import CountedTarget, Density, Evaluated, Ledger, Purpose, Target
from boltzport.targets.mixture import GaussianMixture
from boltzport.targets.toy import Toy
from boltzport.targets.toys import TOYS, toy
from boltzport.targets.wells import ManyWell

__all__ = [
    "TOYS",
    "CountedTarget",
    "Density",
    "Evaluated",
    "GaussianMixture",
    "Ledger",
    "ManyWell",
    "Purpose",
    "Target",
    "Toy",
    "toy",
]
