"""Ladders that are divided among ranks: each samples its own, and what is reported is of all."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.interrupt import StopRequest
from boltzport.core.parallel import ranks


def own_ladders(ladders: int) -> int:
    """Number of ladders of this rank.

    Raises:
        InputError: There are more ranks than ladders.
    """
    if ladders < ranks().world:
        raise InputError(
            f"expected at most {ladders} processes, one for each ladder of chains, got {ranks().world}; start fewer"
        )
    return ranks().share(ladders)


def mean_of_ladders(values: Float[Tensor, "rows ladders"]) -> Float[Tensor, " rows"]:
    """The mean of each row over the ladders of all ranks."""
    if ranks().alone:
        return values.mean(1)
    sums = torch.cat([values.sum(1), values.new_tensor([values.shape[1]])])
    ranks().average([sums])
    return sums[:-1] / sums[-1]


def mean_of_ranks(means: Float[Tensor, " rows"], ladders: int) -> Float[Tensor, " rows"]:
    """The mean over the ladders of all ranks, from the means over those of each.

    Args:
        means: Means over the ladders of this rank.
        ladders: Their number.
    """
    return means if ranks().alone else mean_of_ladders(means[:, None].expand(-1, ladders))


def stop_asked(stop: StopRequest) -> bool:
    """Whether a user has asked any of the ranks to stop; the same on all of them."""
    return ranks().mean(stop.asked) > 0


def by_chain(frames: list[Tensor]) -> np.ndarray:
    """(times, chains, ...) as (frames, ...), chain after chain; on rank 0 of the chains of all ranks."""
    own = torch.stack(frames, 1)
    if not ranks().alone:
        parts = []
        # One ladder of each rank at a time: only rank 0 needs memory for all of them.
        for ladder in range(max(ranks().sizes(len(own)))):
            found = ranks().gather(own[ladder : ladder + 1])
            if ranks().leads:
                parts.append(found)
        own = torch.cat(parts) if parts else own
    return own.flatten(0, 1).numpy()
