"""Methods: ways to train a flow on a target."""

from boltzport.methods.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.methods.buffer import Buffer, Drawn, draw
from boltzport.methods.cmt import CMT, CMTConfig, within_budget
from boltzport.methods.optimiser import Schedule
from boltzport.methods.registry import METHODS, Entry, MethodConfig, method_entry
from boltzport.methods.ta_bg import TABG, TABGConfig

__all__ = [
    "CMT",
    "METHODS",
    "TABG",
    "Buffer",
    "CMTConfig",
    "Checkpoint",
    "Drawn",
    "Entry",
    "Method",
    "MethodConfig",
    "Progress",
    "Schedule",
    "State",
    "StepInfo",
    "TABGConfig",
    "draw",
    "method_entry",
    "within_budget",
]
