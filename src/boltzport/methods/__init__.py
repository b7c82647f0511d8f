"""Methods that train a flow on a target."""

from boltzport.methods.base import Checkpoint, Method, Progress, State, StepInfo, WeightedPoints
from boltzport.methods.buffer import Buffer, Drawn, draw
from boltzport.methods.cmt import CMT, CMTConfig
from boltzport.methods.fab import FAB, FABConfig
from boltzport.methods.forward_kl import ForwardKL, ForwardKLConfig
from boltzport.methods.optimiser import Algorithm, Schedule
from boltzport.methods.registry import METHODS, Entry, MethodConfig, method_entry
from boltzport.methods.reverse_kl import ReverseKL, ReverseKLConfig
from boltzport.methods.ta_bg import TABG, TABGConfig

__all__ = [
    "CMT",
    "FAB",
    "METHODS",
    "TABG",
    "Algorithm",
    "Buffer",
    "CMTConfig",
    "Checkpoint",
    "Drawn",
    "Entry",
    "FABConfig",
    "ForwardKL",
    "ForwardKLConfig",
    "Method",
    "MethodConfig",
    "Progress",
    "ReverseKL",
    "ReverseKLConfig",
    "Schedule",
    "State",
    "StepInfo",
    "TABGConfig",
    "WeightedPoints",
    "draw",
    "method_entry",
]
