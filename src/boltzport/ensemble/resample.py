"""Equal weights from unequal ones, and what the weights are worth."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.errors import RunError


class Quality(NamedTuple):
    """What a set of weighted samples is worth.

    Attributes:
        ess: Effective fraction of the samples, (mean w)^2 / mean(w^2), nothing clipped.
        log_z: Log of the mean weight.
    """

    ess: float
    log_z: float


def quality(log_weights: Float[np.ndarray, " draws"]) -> Quality:
    """Effective fraction and log of the mean weight.

    Raises:
        RunError: No sample has a finite weight.
    """
    largest = _largest(log_weights)
    weights = np.exp(log_weights - largest)
    return Quality(float(weights.mean() ** 2 / np.mean(weights**2)), largest + math.log(weights.mean()))


def systematic_counts(
    log_weights: Float[np.ndarray, " draws"], n: int, *, generator: torch.Generator
) -> Int[np.ndarray, " draws"]:
    """How often each draw is taken so that n frames of equal weight stand for the weighted ones.

    Systematic resampling: one uniform number places a comb of n teeth over the cumulated weights, so that a draw of
    the expected count c is taken floor(c) or ceil(c) times. Douc, Cappe and Moulines (2005).

    Raises:
        RunError: No draw has a finite weight.
    """
    weights = np.exp(log_weights - _largest(log_weights))
    cumulated = np.cumsum(weights)
    cumulated *= n / cumulated[-1]
    cumulated[-1] = n
    offset = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    teeth = np.ceil(cumulated - offset).astype(np.int64)
    return np.diff(teeth, prepend=0)


def _largest(log_weights: np.ndarray) -> float:
    largest = float(np.max(log_weights, initial=-np.inf))
    if not math.isfinite(largest):
        raise RunError(f"none of {len(log_weights)} samples has a finite weight; is the flow that of this target?")
    return largest
