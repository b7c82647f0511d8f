"""Resampling: points of equal weight from weighted points."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.weights import normalised


def resampled(log_weights: Float[Tensor, " batch"], n: int, *, generator: torch.Generator) -> Int[Tensor, " chosen"]:
    """Indices of n points of equal weight that represent the weighted ones, in increasing order.

    Systematic resampling: a comb of n teeth over the cumulative weights, so that a point with expected count c is
    taken floor(c) or ceil(c) times. It is unbiased like independent draws and has less noise (Douc, Cappe and Moulines
    2005), and it does not have the limit of 2^24 points of `torch.multinomial`.
    """
    cumulated = normalised(log_weights).cumsum(0)
    cumulated = cumulated / cumulated[-1]
    offset = torch.rand((), dtype=torch.float64, generator=generator, device=cumulated.device)
    teeth = (torch.arange(n, dtype=torch.float64, device=cumulated.device) + offset) / n
    return torch.searchsorted(cumulated, teeth, right=True).clamp_max(len(log_weights) - 1)
