"""Temperature-annealed Boltzmann generators."""

from boltzport.training.methods.ta_bg.config import TABGConfig, evaluations, temperatures, within_budget
from boltzport.training.methods.ta_bg.method import TABG, TABGState

__all__ = ["TABG", "TABGConfig", "TABGState", "evaluations", "temperatures", "within_budget"]
