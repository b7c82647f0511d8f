"""Coupling flows, which transform half of the coordinates at a time."""

from boltzport.flows.couplings.conditioner import Activation
from boltzport.flows.couplings.config import LAPTOP, PAPER, CouplingConfig
from boltzport.flows.couplings.flow import CouplingFlow

__all__ = ["LAPTOP", "PAPER", "Activation", "CouplingConfig", "CouplingFlow"]
