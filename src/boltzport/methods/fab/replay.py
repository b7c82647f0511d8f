"""The prioritised replay buffer: points of p^2 / q with weights that follow the flow, and the losses that use them.

A weight of annealed importance sampling towards p^2 / q is a numerator, which no flow changes, over q at the point. So
a buffer keeps the numerator and the last known log q: a weight under another flow is corrected by q_old / q_new, to the
first power, since alpha is 2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.methods.base import Checkpoint
from boltzport.weights import normalised, without_negligible


class Draw(NamedTuple):
    """Points of a buffer.

    Attributes:
        indices: Where they are in the buffer.
        coordinates: The points.
        log_q: Log density of the flow by which they were weighted.
    """

    indices: Int[Tensor, " drawn"]
    coordinates: Float[Tensor, "drawn dimensions"]
    log_q: Float[Tensor, " drawn"]

    def batches(self, count: int) -> "list[Draw]":
        """Equal parts; what is left over is left out, and where there are fewer points than parts, points repeat."""
        size = max(1, len(self.indices) // count)
        rows = torch.arange(count * size).view(count, size) % len(self.indices)
        return [Draw(*(field[row] for field in self)) for row in rows]


class Replay(NamedTuple):
    """A buffer, the oldest points first. Nothing changes in place.

    Attributes:
        coordinates: The points.
        log_numerators: Log-weights to p^2 / q, plus log q: what is left when the flow changes.
        log_q: Log density of each point under the flow that last saw it.
    """

    coordinates: Float[Tensor, "points dimensions"]
    log_numerators: Float[Tensor, " points"]
    log_q: Float[Tensor, " points"]

    @classmethod
    def empty(cls, dimensions: int) -> "Replay":
        """A buffer without points."""
        nothing = torch.empty(0, dtype=torch.float64)
        return cls(torch.empty(0, dimensions), nothing, nothing)

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.log_q)

    @property
    def log_weights(self) -> Float[Tensor, " points"]:
        """Log-weights to p^2 / q, for the flow that last saw each point."""
        return self.log_numerators - self.log_q

    def joined(self, new: "Replay", *, limit: int) -> "Replay":
        """With new points; the oldest beyond the limit are forgotten."""
        if not self.size:
            return new.part(slice(max(0, new.size - limit), None))
        whole = Replay(*(torch.cat(pair) for pair in zip(self, new, strict=True)))
        return whole.part(slice(max(0, whole.size - limit), None))

    def part(self, chosen: slice | Tensor) -> "Replay":
        """Some of the points."""
        return Replay(*(field[chosen] for field in self))

    def draw(self, n: int, *, generator: torch.Generator) -> Draw:
        """Draw points in proportion to their weights, none of them twice, in random order.

        Without replacement: while few points have all the weight, the others soften what is learned from them. But
        if all were drawn, weights would say nothing, so that half of the points is the most.

        Args:
            n: How many; half of the points where that is less.
            generator: Draws.
        """
        # The race of exponential clocks (Gumbel's trick): the first n to ring are a sample without replacement.
        clocks = torch.empty_like(self.log_q).exponential_(generator=generator).log() - self.log_weights
        chosen = torch.topk(clocks, min(n, (self.size + 1) // 2), largest=False).indices
        chosen = chosen[torch.randperm(len(chosen), generator=generator)]
        return Draw(chosen, self.coordinates[chosen], self.log_q[chosen])

    def seen(self, indices: Int[Tensor, " drawn"], log_q: Float[Tensor, " drawn"]) -> "Replay":
        """With the log density of some points under a new flow; where it is not finite, it stays as it was."""
        good = log_q.isfinite()
        return self._replace(log_q=self.log_q.index_put((indices[good],), log_q[good].double()))

    def save(self) -> Checkpoint:
        """All points."""
        return self._asdict()

    @classmethod
    def restored(cls, checkpoint: Checkpoint) -> "Replay":
        """What `save` gave."""
        return cls(**checkpoint)


def replay_loss(
    log_q: Float[Tensor, " batch"], log_q_drawn: Float[Tensor, " batch"], *, clip: float
) -> Float[Tensor, ""]:
    """Loss on points drawn in proportion to p^2 / q_drawn; descends the divergence with alpha = 2, E_p[p / q].

    Args:
        log_q: Log density of the flow, differentiable.
        log_q_drawn: Log density of the flow by which the points were weighted.
        clip: Largest correction q_drawn / q.
    """
    correction = (log_q_drawn - log_q.detach().double()).exp().clamp_max(clip)
    return -_weighted(log_q, correction).mean()


def weighted_loss(log_q: Float[Tensor, " batch"], log_weights: Float[Tensor, " batch"]) -> Float[Tensor, ""]:
    """The same loss on points with weights to p^2 / q, which are normalised.

    Args:
        log_q: Log density of the flow, differentiable.
        log_weights: Log-weights to p^2 / q, for this flow.
    """
    return -_weighted(log_q, without_negligible(normalised(log_weights), mean=1.0 / len(log_weights))).sum()


def _weighted(log_q: Tensor, weights: Tensor) -> Tensor:
    """Log densities times weights; zero where a point on the edge of the box was rounded to the wrong side of it."""
    inside = log_q.detach().isfinite()
    return torch.where(inside, weights.to(log_q.dtype), 0.0) * log_q.nan_to_num(neginf=0.0)
