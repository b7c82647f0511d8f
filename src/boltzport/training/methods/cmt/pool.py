"""Weighted torsions of previous buffers: once the path has reached the target, all are samples of the target."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.training.base import Checkpoint
from boltzport.training.fit import FitData, of_mean_one

HEAVIEST = 50.0
"""Upper bound of the weights, in units of their mean: a single point must not dominate a fit."""


class Pooled(NamedTuple):
    """The torsions of one buffer.

    Attributes:
        torsions: The points.
        weights: Weights with respect to the target, with mean one.
        log_drawn: Log density of the proposal they were drawn from.
        worth: ESS fraction of the weights, by which the points count relative to those of other buffers.
    """

    torsions: Float[Tensor, "batch torsions"]
    weights: Float[Tensor, " batch"]
    log_drawn: Float[Tensor, " batch"]
    worth: float


class Pool:
    """The torsions of the last few buffers.

    Args:
        count: Number of buffers to keep.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[Pooled] = []

    def add(self, data: FitData) -> None:
        """Add a buffer and drop the oldest one.

        Args:
            data: Torsions, with the known log density of their proposal.
        """
        assert data.log_drawn is not None
        weights = of_mean_one(data.log_weights).clamp_max(HEAVIEST)
        weights = weights / _mean(weights)
        worth = 1.0 / _mean(weights * weights)
        self._kept = [*self._kept, Pooled(data.coordinates, weights, data.log_drawn, worth)][-self._count :]

    @property
    def data(self) -> FitData:
        """All points as the data of one fit."""
        sizes = torch.tensor([len(kept.weights) for kept in self._kept], dtype=torch.float64, device="cpu")
        worths = torch.tensor([kept.worth for kept in self._kept], dtype=torch.float64, device="cpu")
        # A common factor of both terms of the control variate keeps its mean at zero.
        factors = (worths / ((sizes * worths).sum() / sizes.sum())).tolist()
        pairs = list(zip(self._kept, factors, strict=True))
        log_drawn = torch.cat([kept.log_drawn - math.log(factor) for kept, factor in pairs])
        return FitData(
            coordinates=torch.cat([kept.torsions for kept in self._kept]),
            log_weights=torch.cat([(kept.weights * factor).log() for kept, factor in pairs]),
            log_density=log_drawn,
            log_drawn=log_drawn,
        )

    def save(self) -> Checkpoint:
        """Return all points."""
        return {"kept": [list(kept) for kept in self._kept]}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self._kept = [Pooled(*fields) for fields in checkpoint["kept"]]


def _mean(values: Tensor) -> float:
    """Mean over the ranks of the means over their points."""
    return ranks().mean(float(values.mean()))
