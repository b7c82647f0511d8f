"""Equal weights from unequal ones."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.errors import RunError


def systematic_counts(
    log_weights: Float[np.ndarray, " draws"], n: int, *, generator: torch.Generator
) -> Int[np.ndarray, " draws"]:
    """How often each draw is taken so that n frames of equal weight stand for the weighted ones.

    Systematic resampling: one uniform number places a comb of n teeth over the cumulated weights, so that a draw of
    the expected count c is taken floor(c) or ceil(c) times. Douc, Cappe and Moulines (2005).

    Raises:
        RunError: No draw has a finite weight.
    """
    check_weights(log_weights)
    weights = np.exp(log_weights - np.max(log_weights))
    cumulated = np.cumsum(weights)
    cumulated *= n / cumulated[-1]
    cumulated[-1] = n
    offset = float(torch.rand((), generator=generator, dtype=torch.float64, device=generator.device))
    teeth = np.ceil(cumulated - offset).astype(np.int64)
    return np.diff(teeth, prepend=0)


def check_weights(log_weights: Float[np.ndarray, " draws"]) -> None:
    """See to it that some draw counts.

    Raises:
        RunError: No draw has a finite weight.
    """
    if not math.isfinite(np.max(log_weights, initial=-np.inf)):
        raise RunError(f"none of {len(log_weights)} samples has a finite weight; is the flow that of this target?")
