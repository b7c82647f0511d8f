"""Evaluation of a flow on its target: every figure, with its interval and its noise floor.

`Evaluation.to_json` is what `evaluation.json` holds, `Evaluation.arrays` what `evaluation.npz` holds; the module
`arrays` names them.
"""

from boltzport.evaluate.display import evaluation_table
from boltzport.evaluate.evaluation import AgainstReference, Cost, Evaluation
from boltzport.evaluate.model import Progress
from boltzport.evaluate.reference import Reference, check_energies
from boltzport.evaluate.run import evaluate
from boltzport.metrics import LogZ

__all__ = [
    "AgainstReference",
    "Cost",
    "Evaluation",
    "LogZ",
    "Progress",
    "Reference",
    "check_energies",
    "evaluate",
    "evaluation_table",
]
