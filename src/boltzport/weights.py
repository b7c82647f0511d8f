"""Importance weights by their logarithms, in float64."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class LogMean(NamedTuple):
    """Log of the mean of weights, and the standard error of that logarithm."""

    value: float
    error: float


def normalised(log_weights: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Weights that add up to one."""
    return torch.softmax(log_weights.double(), 0)


def log_mean(log_weights: Float[Tensor, " batch"]) -> LogMean:
    """Log of the mean weight: log Z, where the weights are of an unnormalised density.

    Example:
        >>> round(log_mean(torch.tensor([1.0, 3.0]).log()).value, 6) == round(math.log(2.0), 6)
        True
    """
    count = len(log_weights)
    value = float(torch.logsumexp(log_weights.double(), 0)) - math.log(count)
    spread = 1.0 / effective_fraction(log_weights) - 1.0
    return LogMean(value, math.sqrt(max(spread, 0.0) / count))


def effective_fraction(log_weights: Float[Tensor, " batch"]) -> float:
    """Effective sample size over the number of samples: (mean w)^2 / mean(w^2).

    The paper's formula lacks the square.

    Example:
        >>> effective_fraction(torch.tensor([0.0, -torch.inf]))
        0.5
    """
    weights = normalised(log_weights)
    return float(1.0 / (len(weights) * (weights * weights).sum()))
