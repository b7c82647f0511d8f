"""Methods: ways to train a flow on a target."""

from boltzport.methods.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.methods.buffer import Buffer, Drawn, draw
from boltzport.methods.cmt import CMT, CMTConfig, within_budget
from boltzport.methods.fab import FAB, FABConfig, within_evaluations
from boltzport.methods.optimiser import Schedule
from boltzport.methods.registry import METHODS, Entry, MethodConfig, method_entry

__all__ = [
    "CMT",
    "FAB",
    "METHODS",
    "Buffer",
    "CMTConfig",
    "Checkpoint",
    "Drawn",
    "Entry",
    "FABConfig",
    "Method",
    "MethodConfig",
    "Progress",
    "Schedule",
    "State",
    "StepInfo",
    "draw",
    "method_entry",
    "within_budget",
    "within_evaluations",
]
