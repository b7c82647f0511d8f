"""The methods that train a flow on a target, by name."""

from boltzport.training.methods.cmt import CMT, CMTConfig
from boltzport.training.methods.fab import FAB, FABConfig
from boltzport.training.methods.forward_kl import ForwardKL, ForwardKLConfig
from boltzport.training.methods.registry import METHODS, Entry, MethodConfig, method_entry
from boltzport.training.methods.reverse_kl import ReverseKL, ReverseKLConfig
from boltzport.training.methods.ta_bg import TABG, TABGConfig

__all__ = [
    "CMT",
    "FAB",
    "METHODS",
    "TABG",
    "CMTConfig",
    "Entry",
    "FABConfig",
    "ForwardKL",
    "ForwardKLConfig",
    "MethodConfig",
    "ReverseKL",
    "ReverseKLConfig",
    "TABGConfig",
    "method_entry",
]
