"""Evaluation of a flow on its target: every metric, with its interval and its noise floor.

`evaluation.json` holds `Results.to_json` and `evaluation.npz` holds `Results.arrays`; the module `arrays` lists them.
"""

from boltzport.analysis.evaluation.estimates import Cost
from boltzport.analysis.evaluation.reference import ReferenceSamples, check_energies
from boltzport.analysis.evaluation.run import evaluate
from boltzport.analysis.metrics import LogZ

__all__ = ["Cost", "LogZ", "ReferenceSamples", "check_energies", "evaluate"]
