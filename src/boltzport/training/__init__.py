"""Training of a flow on a target, in memory: the loop over steps, and the parts that the methods share."""

from boltzport.training.base import Checkpoint, Method, Progress, State, StepInfo, WeightedPoints
from boltzport.training.buffer import Buffer, Drawn, draw
from boltzport.training.loop import Status, Training
from boltzport.training.optimiser import Algorithm, Schedule

__all__ = [
    "Algorithm",
    "Buffer",
    "Checkpoint",
    "Drawn",
    "Method",
    "Progress",
    "Schedule",
    "State",
    "Status",
    "StepInfo",
    "Training",
    "WeightedPoints",
    "draw",
]
