"""Methods: ways to train a flow on a target."""

from boltzport.methods.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.methods.buffer import Buffer, Drawn, draw
from boltzport.methods.cmt import CMT, CMTConfig, within_budget
from boltzport.methods.optimiser import Schedule

__all__ = [
    "CMT",
    "Buffer",
    "CMTConfig",
    "Checkpoint",
    "Drawn",
    "Method",
    "Progress",
    "Schedule",
    "State",
    "StepInfo",
    "draw",
    "within_budget",
]
