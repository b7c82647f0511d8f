"""Weighted maximum likelihood on a buffer.

The gradient of the likelihood is noisy even where the fit is done. With q the density that the points were drawn from,
w the weights that make them a sample of the density to be learned, and f the flow,

    - E_q[ (w - f / q) grad log f ]

has the same mean, since E_f[grad log f] = 0, and vanishes point by point where f = w q: a control variate that costs
nothing, as both densities are known.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.methods.base import Progress
from boltzport.methods.optimiser import Optimiser
from boltzport.weights import normalised, without_negligible

HEAVIEST = 10.0
"""Larger ratios of the flow to what the points were drawn from are cut to it in the control variate."""

LogProb = Callable[[Tensor], Tensor]
"""Points (batch, dimensions) to their log density under what is fitted."""


class FitData(NamedTuple):
    """Points with weights, and the log density that is to be learned, where it is known.

    Attributes:
        coordinates: The points.
        log_weights: What makes them a sample of the density to be learned.
        log_density: That density's logarithm, with respect to the coordinates; up to a constant where only changes of
            the divergence matter.
        log_drawn: Log density that they were drawn from, for the control variate; none where it is not known.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_weights: Float[Tensor, " batch"]
    log_density: Float[Tensor, " batch"]
    log_drawn: Float[Tensor, " batch"] | None = None

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.log_weights)

    def part(self, chosen: slice) -> "FitData":
        """Some of the points."""
        drawn = None if self.log_drawn is None else self.log_drawn[chosen]
        return FitData(self.coordinates[chosen], self.log_weights[chosen], self.log_density[chosen], drawn)


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Settings of a fit.

    Attributes:
        gradient_steps: Most gradient steps.
        batch_size: Points of a gradient step.
        hold_out: Fraction of the points that is left out, to judge the fit.
        learned: The fit stops when the divergence on them has fallen to this part of what it was; 0 for never.
        enough: It stops when the divergence has fallen by less than this between two looks, nats; 0 for never.
        check_every: Gradient steps between two looks at them.
    """

    gradient_steps: int
    batch_size: int
    hold_out: float
    learned: float = 0.0
    enough: float = 0.0
    check_every: int = 1


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
    log_prob: LogProb,
    optimiser: Optimiser,
    data: FitData,
    config: FitConfig,
    *,
    generator: torch.Generator,
    progress: Progress,
    span: tuple[float, float],
    stage: str = "fit",
    held: FitData | None = None,
) -> FitInfo:
    """Move a flow, or a part of it, towards a density, by weighted maximum likelihood on its points.

    Args:
        log_prob: What is fitted.
        optimiser: Of its weights; is changed.
        data: The points.
        config: Settings.
        generator: Shuffles the points.
        progress: Is told how far the fit is.
        span: Progress of the whole training at the beginning and at the end of this fit.
        stage: What the progress is called.
        held: Points that judge the fit; a part of the others by default.
    """
    held, train = split(data, config.hold_out) if held is None else (held, data)
    weights = without_negligible(normalised(train.log_weights) * train.size, mean=1.0).to(train.coordinates.dtype)
    before = divergence(log_prob, held)
    after, losses, norms = before, 0.0, 0.0
    done = 0
    for batch in _batches(train.size, config.batch_size, config.gradient_steps, generator):
        log_q = log_prob(train.coordinates[batch])
        wanted = weights[batch]
        if train.log_drawn is not None:
            wanted = wanted - _present(log_q, train.log_drawn[batch])
        # A point on the edge of the box may be rounded to the wrong side of it.
        loss = -(wanted * log_q.nan_to_num(neginf=0.0)).mean()
        fraction = span[0] + (span[1] - span[0]) * done / config.gradient_steps
        norm = optimiser.step(loss, progress=fraction)
        losses, norms, done = losses + float(loss.detach()), norms + norm, done + 1
        progress(stage, done, config.gradient_steps)
        if not math.isfinite(norm):
            return FitInfo(done, math.nan, math.nan, before, math.nan)
        if (config.learned > 0 or config.enough > 0) and done % config.check_every == 0:
            former, after = after, divergence(log_prob, held)
            learned = config.learned > 0 and after <= config.learned * before
            if learned or (config.enough > 0 and former - after < config.enough):
                return FitInfo(done, losses / done, norms / done, before, after)
    after = divergence(log_prob, held)
    return FitInfo(done, losses / max(done, 1), norms / max(done, 1), before, after)


def split(data: FitData, hold_out: float) -> tuple[FitData, FitData]:
    """The points that judge a fit, and those that it learns from."""
    cut = math.ceil(hold_out * data.size)
    return data.part(slice(0, cut)), data.part(slice(cut, None))


@torch.no_grad()
def divergence(log_prob: LogProb, data: FitData) -> float:
    """KL(density || flow) by weighted points; NaN where there are none."""
    if not data.size:
        return math.nan
    log_q = log_prob(data.coordinates).double()
    weights = normalised(data.log_weights)
    inside = log_q.isfinite()
    return float((weights * (data.log_density - log_q))[inside].sum())


def _present(log_q: Tensor, log_drawn: Tensor) -> Tensor:
    """How much of each point the flow has already, in units of what it was drawn with."""
    return (log_q.detach().double() - log_drawn).exp().clamp_max(HEAVIEST).nan_to_num(0.0).to(log_q.dtype)


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
