"""Weighted maximum likelihood on a buffer.

The gradient of the likelihood is noisy even at the optimum. With q the density that the points were drawn from, w their
weights with respect to the density to be learned, and f the flow,

    - E_q[ (w - f / q) grad log f ]

has the same mean, since E_f[grad log f] = 0, and vanishes pointwise where f = w q. This control variate is free, as
both densities are known.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.core.weights import normalised, without_negligible
from boltzport.training.base import Progress
from boltzport.training.optimiser import Optimiser

HEAVIEST = 10.0
"""Upper bound, in the control variate, of the ratio of the flow to the density the points were drawn from."""

LogProb = Callable[[Tensor], Tensor]
"""Maps points (batch, dimensions) to their log density under the model being fitted."""


class FitData(NamedTuple):
    """Weighted points, and the log density to be learned, if it is known.

    Attributes:
        coordinates: The points.
        log_weights: Log-weights with respect to the density to be learned.
        log_density: Log of that density, with respect to the coordinates; up to a constant if only changes of the
            divergence matter.
        log_drawn: Log density that the points were drawn from, for the control variate; None if it is not known.
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
        """Return a subset of the points."""
        drawn = None if self.log_drawn is None else self.log_drawn[chosen]
        return FitData(self.coordinates[chosen], self.log_weights[chosen], self.log_density[chosen], drawn)


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """Settings of a fit.

    Attributes:
        gradient_steps: Maximum number of gradient steps.
        batch_size: Number of points per gradient step.
        hold_out: Fraction of the points that is held out to judge the fit.
        learned: The fit stops when the held-out divergence has fallen to this fraction of its initial value; 0 for
            never.
        enough: The fit stops when the divergence falls by less than this between two checks, in nats; 0 for never.
        check_every: Number of gradient steps between two checks.
    """

    gradient_steps: int
    batch_size: int
    hold_out: float
    learned: float = 0.0
    enough: float = 0.0
    check_every: int = 1


class FitInfo(NamedTuple):
    """Result of a fit.

    Attributes:
        gradient_steps: Number of completed gradient steps.
        loss: Mean loss of the gradient steps.
        gradient_norm: Mean gradient norm before clipping.
        before: KL(density || flow) on the held-out points before the fit.
        after: KL(density || flow) on the held-out points after the fit.
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
    """Fit a flow, or a part of it, to a density by weighted maximum likelihood.

    Each rank fits to its own points, with an equal part of every batch; the divergences are those of all points.

    Args:
        log_prob: Log density of the model being fitted.
        optimiser: Optimiser of its weights; modified in place.
        data: Training points.
        config: Settings.
        generator: Random generator that shuffles the points.
        progress: Progress callback.
        span: Progress of the whole training at the start and the end of this fit.
        stage: Name of the stage in the progress report.
        held: Held-out points that judge the fit; by default a fraction of `data`.
    """
    held, train = split(data, config.hold_out) if held is None else (held, data)
    weights = without_negligible(of_mean_one(train.log_weights), mean=1.0).to(train.coordinates.dtype)
    before = divergence(log_prob, held)
    after, losses, norms = before, 0.0, 0.0
    done = 0
    for batch in _batches(train.size, ranks().each(config.batch_size), config.gradient_steps, generator):
        log_q = log_prob(train.coordinates[batch])
        wanted = weights[batch]
        if train.log_drawn is not None:
            wanted = wanted - _present(log_q, train.log_drawn[batch])
        # Rounding may move a point at the edge of the box outside of it.
        loss = -(wanted * log_q.nan_to_num(neginf=0.0)).mean()
        fraction = span[0] + (span[1] - span[0]) * done / config.gradient_steps
        norm = optimiser.step(loss, progress=fraction)
        losses, norms, done = losses + float(loss.detach()), norms + norm, done + 1
        progress(stage, done, config.gradient_steps)
        if not math.isfinite(norm):
            return FitInfo(done, math.nan, math.nan, before, math.nan)
        if (config.learned > 0 or config.enough > 0) and done % config.check_every == 0:
            optimiser.settle()
            former, after = after, divergence(log_prob, held)
            learned = config.learned > 0 and after <= config.learned * before
            if learned or (config.enough > 0 and former - after < config.enough):
                return FitInfo(done, ranks().mean(losses / done), norms / done, before, after)
    optimiser.settle()
    after = divergence(log_prob, held)
    return FitInfo(done, ranks().mean(losses / max(done, 1)), norms / max(done, 1), before, after)


def split(data: FitData, hold_out: float) -> tuple[FitData, FitData]:
    """Split points into those that are held out to judge a fit, and those for training."""
    cut = math.ceil(hold_out * data.size)
    return data.part(slice(0, cut)), data.part(slice(cut, None))


def of_mean_one(log_weights: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """Weights of this rank's points whose mean over the ranks' means is one.

    A mean over all points is then the mean, over the ranks, of the means over their own points.
    """
    own = normalised(log_weights) * len(log_weights)
    if ranks().alone:
        return own
    each = ranks().gather(torch.logsumexp(log_weights.double(), 0)[None])
    return own * (torch.softmax(each, 0)[ranks().rank] * ranks().world)


@torch.no_grad()
def divergence(log_prob: LogProb, data: FitData) -> float:
    """KL(density || flow), estimated from the weighted points of all ranks; NaN if there are none."""
    log_q = ranks().gather(log_prob(data.coordinates).double())
    if not len(log_q):
        return math.nan
    weights = normalised(ranks().gather(data.log_weights))
    inside = log_q.isfinite()
    return float((weights * (ranks().gather(data.log_density) - log_q))[inside].sum())


def _present(log_q: Tensor, log_drawn: Tensor) -> Tensor:
    """Bounded ratio of the flow's density to the density that each point was drawn from."""
    return (log_q.detach().double() - log_drawn).exp().clamp_max(HEAVIEST).nan_to_num(0.0).to(log_q.dtype)


def _batches(n: int, size: int, count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield batches of indices: every point once, then again in a new order."""
    given, size = 0, min(size, n)
    while given < count:
        order = torch.randperm(n, generator=generator, device=generator.device)
        for batch in torch.split(order[: n - n % size], size):
            yield batch
            given += 1
            if given == count:
                return
