"""Flow annealed importance sampling bootstrap (FAB).

L. I. Midgley, V. Stimper, G. N. C. Simm, B. Schölkopf, J. M. Hernández-Lobato, ICLR 2023, arXiv:2208.01893.
"""

from boltzport.training.methods.fab.bootstrap import Bootstrapped, bootstrap
from boltzport.training.methods.fab.budget import evaluations, within_budget
from boltzport.training.methods.fab.config import FABConfig
from boltzport.training.methods.fab.method import FAB, FABState
from boltzport.training.methods.fab.replay import Draw, Replay, replay_loss, weighted_loss

__all__ = [
    "FAB",
    "Bootstrapped",
    "Draw",
    "FABConfig",
    "FABState",
    "Replay",
    "bootstrap",
    "evaluations",
    "replay_loss",
    "weighted_loss",
    "within_budget",
]
