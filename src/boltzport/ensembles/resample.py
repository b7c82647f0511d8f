"""Resampling to equal weights."""

import math

import numpy as np
import torch
from jaxtyping import Float, Int

from boltzport.core.errors import RunError


def systematic_counts(
    log_weights: Float[np.ndarray, " draws"], n: int, *, generator: torch.Generator
) -> Int[np.ndarray, " draws"]:
    """Number of copies of each draw in n frames of equal weight, by systematic resampling.

    One uniform number places a comb of n teeth over the cumulative weights, so that a draw with the expected count c is
    taken floor(c) or ceil(c) times. Douc, Cappe and Moulines (2005).

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
    """Check that at least one draw has a finite weight.

    Raises:
        RunError: No draw has a finite weight.
    """
    if not math.isfinite(np.max(log_weights, initial=-np.inf)):
        raise RunError(f"none of {len(log_weights)} samples has a finite weight; does the flow belong to this target?")
