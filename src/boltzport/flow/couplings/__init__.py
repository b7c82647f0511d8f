"""Coupling flows, which transform half of the coordinates at a time."""

from boltzport.flow.couplings.conditioner import Activation
from boltzport.flow.couplings.config import LAPTOP, PAPER, CouplingConfig
from boltzport.flow.couplings.flow import CouplingFlow

__all__ = ["LAPTOP", "PAPER", "Activation", "CouplingConfig", "CouplingFlow"]
