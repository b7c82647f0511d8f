"""Prioritised replay buffer: points of p^2 / q with weights that follow the flow, and the losses that use them.

A weight of annealed importance sampling towards p^2 / q is a numerator, which does not depend on the flow, divided by
q at the point. So a buffer keeps the numerator and the last known log q: for another flow a weight is corrected by
q_old / q_new, to the first power, since alpha is 2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.weights import normalised, without_negligible
from boltzport.training.base import Checkpoint


class Draw(NamedTuple):
    """Points drawn from a buffer.

    Attributes:
        indices: Their indices in the buffer.
        coordinates: The points.
        log_q: Log density of the flow that their weights refer to.
    """

    indices: Int[Tensor, " drawn"]
    coordinates: Float[Tensor, "drawn dimensions"]
    log_q: Float[Tensor, " drawn"]

    def batches(self, count: int) -> "list[Draw]":
        """Split into equal batches; the remainder is dropped, and points repeat if there are fewer than batches."""
        size = max(1, len(self.indices) // count)
        rows = torch.arange(count * size, device=self.indices.device).view(count, size) % len(self.indices)
        return [Draw(*(field[row] for field in self)) for row in rows]


class Replay(NamedTuple):
    """An immutable buffer, oldest points first.

    Attributes:
        coordinates: The points.
        log_numerators: Log-weights with respect to p^2 / q, plus log q: the part that does not depend on the flow.
        log_q: Log density of each point under the flow that last evaluated it.
    """

    coordinates: Float[Tensor, "points dimensions"]
    log_numerators: Float[Tensor, " points"]
    log_q: Float[Tensor, " points"]

    @classmethod
    def empty(cls, dimensions: int) -> "Replay":
        """Return an empty buffer."""
        nothing = torch.empty(0, dtype=torch.float64, device="cpu")
        return cls(torch.empty(0, dimensions, device="cpu"), nothing, nothing)

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.log_q)

    @property
    def log_weights(self) -> Float[Tensor, " points"]:
        """Log-weights with respect to p^2 / q, for the flow that last evaluated each point."""
        return self.log_numerators - self.log_q

    def joined(self, new: "Replay", *, limit: int) -> "Replay":
        """Return the buffer with new points added; the oldest points beyond the limit are dropped."""
        if not self.size:
            return new.part(slice(max(0, new.size - limit), None))
        whole = Replay(*(torch.cat(pair) for pair in zip(self, new, strict=True)))
        return whole.part(slice(max(0, whole.size - limit), None))

    def part(self, chosen: slice | Tensor) -> "Replay":
        """Return a subset of the points."""
        return Replay(*(field[chosen] for field in self))

    def draw(self, n: int, *, generator: torch.Generator) -> Draw:
        """Draw points in proportion to their weights, without replacement and in random order.

        Without replacement, because the other points reduce overfitting while a few have all the weight. If all points
        were drawn, the weights would have no effect, so at most half of the points are drawn.

        Args:
            n: Number of points; at most half of the buffer is drawn.
            generator: Random generator.
        """
        # Race of exponential clocks (the Gumbel trick): the first n to ring are a sample without replacement.
        clocks = torch.empty_like(self.log_q).exponential_(generator=generator).log() - self.log_weights
        chosen = torch.topk(clocks, min(n, (self.size + 1) // 2), largest=False).indices
        chosen = chosen[torch.randperm(len(chosen), generator=generator, device=generator.device)]
        return Draw(chosen, self.coordinates[chosen], self.log_q[chosen])

    def seen(self, indices: Int[Tensor, " drawn"], log_q: Float[Tensor, " drawn"]) -> "Replay":
        """Return the buffer with some log densities updated to a new flow; values that are not finite are ignored."""
        good = log_q.isfinite()
        return self._replace(log_q=self.log_q.index_put((indices[good],), log_q[good].double()))

    def save(self) -> Checkpoint:
        """Return all points."""
        return self._asdict()

    @classmethod
    def restored(cls, checkpoint: Checkpoint) -> "Replay":
        """Return the buffer from a checkpoint written by `save`."""
        return cls(**checkpoint)


def replay_loss(
    log_q: Float[Tensor, " batch"], log_q_drawn: Float[Tensor, " batch"], *, clip: float
) -> Float[Tensor, ""]:
    """Loss on points drawn in proportion to p^2 / q_drawn; minimises the alpha-divergence with alpha = 2, E_p[p / q].

    Args:
        log_q: Log density of the flow, differentiable.
        log_q_drawn: Log density of the flow that the points' weights refer to.
        clip: Upper bound of the correction q_drawn / q.
    """
    correction = (log_q_drawn - log_q.detach().double()).exp().clamp_max(clip)
    return -_weighted(log_q, correction).mean()


def weighted_loss(log_q: Float[Tensor, " batch"], log_weights: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    """The same loss on points weighted with respect to p^2 / q; the weights are normalised.

    Args:
        log_q: Log density of the flow, differentiable.
        log_weights: Log-weights with respect to p^2 / q, for this flow.
    """
    return -_weighted(log_q, without_negligible(normalised(log_weights), mean=1.0 / len(log_weights))).sum()


def _weighted(log_q: Tensor, weights: Tensor) -> Tensor:
    """Log densities times weights; zero where rounding has moved a point at the edge of the box outside of it."""
    inside = log_q.detach().isfinite()
    return torch.where(inside, weights.to(log_q.dtype), 0.0) * log_q.nan_to_num(neginf=0.0)
