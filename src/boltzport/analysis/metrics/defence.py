"""When samples of a flow are defended by a broader member."""

from boltzport.analysis.metrics.importance import LARGEST_K
from boltzport.analysis.metrics.results import Results

DEFENCE = 0.05
"""Share of the broader member."""


def default_defence(results: Results | None) -> float:
    """Share of a broader member that a model's samples have by default: none if its weights can be trusted.

    Args:
        results: Evaluation of the model; None if it was not evaluated.
    """
    pareto_k = None if results is None else results.value("pareto_k")
    return DEFENCE if pareto_k is not None and pareto_k > LARGEST_K else 0.0
