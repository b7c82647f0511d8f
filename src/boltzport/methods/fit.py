"""Weighted maximum likelihood on a buffer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import Flow
from boltzport.methods.base import Progress
from boltzport.methods.optimiser import Optimiser
from boltzport.weights import normalised, without_negligible


class FitData(NamedTuple):
    """Points with weights, and the log density that is to be learned, where it is known.

    Attributes:
        coordinates: The points.
        log_weights: What makes them a sample of the density to be learned.
        log_density: That density's logarithm, normalised, with respect to the coordinates.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_weights: Float[Tensor, " batch"]
    log_density: Float[Tensor, " batch"]

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.log_weights)

    def part(self, chosen: slice) -> "FitData":
        """Some of the points."""
        return FitData(*(field[chosen] for field in self))


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Settings of a fit.

    Attributes:
        gradient_steps: Most gradient steps.
        batch_size: Points of a gradient step.
        hold_out: Fraction of the points that is left out, to judge the fit.
        learned: The fit stops when the divergence on them has fallen to this part of what it was; 0 for never.
        check_every: Gradient steps between two looks at them.
    """

    gradient_steps: int
    batch_size: int
    hold_out: float
    learned: float
    check_every: int


class FitInfo(NamedTuple):
    """How a fit went.

    Attributes:
        gradient_steps: Gradient steps done.
        loss: Their mean loss.
        gradient_norm: Their mean gradient norm before clipping.
        before: KL(density || flow) on the points left out, before the fit.
        after: The same after it.
    """

    gradient_steps: int
    loss: float
    gradient_norm: float
    before: float
    after: float


def fit(
    flow: Flow,
    optimiser: Optimiser,
    data: FitData,
    config: FitConfig,
    *,
    generator: torch.Generator,
    progress: Progress,
    span: tuple[float, float],
) -> FitInfo:
    """Move a flow towards a density, by weighted maximum likelihood on its points.

    Args:
        flow: Is changed.
        optimiser: Of the flow's weights; is changed.
        data: The points.
        config: Settings.
        generator: Shuffles the points.
        progress: Is told how far the fit is.
        span: Progress of the whole training at the beginning and at the end of this fit.
    """
    cut = math.ceil(config.hold_out * data.size)
    held, train = data.part(slice(0, cut)), data.part(slice(cut, None))
    weights = without_negligible(normalised(train.log_weights) * train.size, mean=1.0).to(train.coordinates.dtype)
    before = divergence(flow, held)
    after, losses, norms = before, 0.0, 0.0
    done = 0
    for batch in _batches(train.size, config.batch_size, config.gradient_steps, generator):
        log_q = flow.log_prob(train.coordinates[batch])
        # A point on the edge of the box may be rounded to the wrong side of it.
        loss = -(weights[batch] * log_q.nan_to_num(neginf=0.0)).mean()
        fraction = span[0] + (span[1] - span[0]) * done / config.gradient_steps
        norm = optimiser.step(loss, progress=fraction)
        losses, norms, done = losses + float(loss.detach()), norms + norm, done + 1
        progress("fit", done, config.gradient_steps)
        if not math.isfinite(norm):
            return FitInfo(done, math.nan, math.nan, before, math.nan)
        if config.learned > 0 and done % config.check_every == 0:
            after = divergence(flow, held)
            if after <= config.learned * before:
                break
    if not (config.learned > 0 and done % config.check_every == 0):
        after = divergence(flow, held)
    return FitInfo(done, losses / max(done, 1), norms / max(done, 1), before, after)


@torch.no_grad()
def divergence(flow: Flow, data: FitData) -> float:
    """KL(density || flow) by weighted points; NaN where there are none."""
    if not data.size:
        return math.nan
    log_q = flow.log_prob(data.coordinates).double()
    weights = normalised(data.log_weights)
    inside = log_q.isfinite()
    return float((weights * (data.log_density - log_q))[inside].sum())


def _batches(n: int, size: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Batches of indices: every point once, then all over again in another order."""
    given, size = 0, min(size, n)
    while given < count:
        order = torch.randperm(n, generator=generator)
        for batch in torch.split(order[: n - n % size], size):
            yield batch
            given += 1
            if given == count:
                return
