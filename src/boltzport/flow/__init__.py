"""Normalizing flows of splines on intervals and circles."""

from boltzport.flow.conditioner import Activation
from boltzport.flow.config import LAPTOP, PAPER, FlowConfig
from boltzport.flow.flow import Flow, Samples

__all__ = ["LAPTOP", "PAPER", "Activation", "Flow", "FlowConfig", "Samples"]
