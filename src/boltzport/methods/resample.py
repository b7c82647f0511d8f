"""Points of equal weight from points of unequal ones."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.weights import normalised


def resampled(log_weights: Float[Tensor, " batch"], n: int, *, generator: torch.Generator) -> Int[Tensor, " chosen"]:
    """Numbers of points, n of them, that stand for the weighted ones; in order.

    Systematic resampling: a comb of n teeth over the cumulated weights, so that a point of the expected count c is
    taken floor(c) or ceil(c) times. It is without bias like independent draws and has less noise (Douc, Cappe and
    Moulines 2005), and it knows no limit of 2^24 points, as `torch.multinomial` does.
    """
    cumulated = normalised(log_weights).cumsum(0)
    cumulated = cumulated / cumulated[-1]
    offset = torch.rand((), dtype=torch.float64, generator=generator, device=cumulated.device)
    teeth = (torch.arange(n, dtype=torch.float64, device=cumulated.device) + offset) / n
    return torch.searchsorted(cumulated, teeth, right=True).clamp_max(len(log_weights) - 1)
