"""Constrained mass transport."""

from boltzport.methods.cmt.budget import within_budget
from boltzport.methods.cmt.config import CMTConfig
from boltzport.methods.cmt.dual import Bounds, Change, Solution, Status, solve
from boltzport.methods.cmt.method import CMT
from boltzport.methods.cmt.path import Multipliers, PathPoint, log_weights
from boltzport.methods.cmt.state import CMTState

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
