"""Constrained mass transport."""

from boltzport.training.methods.cmt.budget import within_budget
from boltzport.training.methods.cmt.config import CMTConfig
from boltzport.training.methods.cmt.dual import Bounds, Change, Solution, Status, solve
from boltzport.training.methods.cmt.method import CMT
from boltzport.training.methods.cmt.path import Multipliers, PathPoint, log_weights
from boltzport.training.methods.cmt.state import CMTState

__all__ = [
    "CMT",
    "Bounds",
    "CMTConfig",
    "CMTState",
    "Change",
    "Multipliers",
    "PathPoint",
    "Solution",
    "Status",
    "log_weights",
    "solve",
    "within_budget",
]
