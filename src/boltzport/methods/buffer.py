"""Buffers: points of a flow with all that is known of them."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from boltzport import draws
from boltzport.errors import RunError
from boltzport.flow import Flow
from boltzport.methods.base import Progress
from boltzport.targets import CountedTarget, Purpose

CHUNK = 16384
"""Points that are drawn and evaluated at once."""


class Buffer(NamedTuple):
    """Points at which both densities are finite. Log densities are float64, with respect to the target's measure.

    Attributes:
        coordinates: The points.
        log_q: Log density of the flow that the next density is described from.
        log_p: Log of the unnormalised target.
        log_volume: Log of the volume of the target's measure in a unit of coordinates.
        log_base: Log-weights that make the points a sample of that flow; zero where they are one.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_q: Float[Tensor, " batch"]
    log_p: Float[Tensor, " batch"]
    log_volume: Float[Tensor, " batch"]
    log_base: Float[Tensor, " batch"]

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.log_q)

    def part(self, chosen: Bool[Tensor, " batch"] | Int[Tensor, " chosen"] | slice) -> "Buffer":
        """Some of the points."""
        return Buffer(*(field[chosen] for field in self))


class Drawn(NamedTuple):
    """A buffer and how many points besides it had a density that is not finite."""

    buffer: Buffer
    failed: int

    @property
    def log_weights(self) -> Float[Tensor, " drawn"]:
        """Log-weights to the target of all points; minus infinity for those that failed."""
        log_weights = self.buffer.log_p - self.buffer.log_q
        return torch.cat([log_weights, log_weights.new_full((self.failed,), -torch.inf)])


@torch.no_grad()
def draw(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    progress: Progress,
    purpose: Purpose = Purpose.TRAINING,
) -> Drawn:
    """Draw points and evaluate the target at them; those that fail are taken out and counted.

    Raises:
        RunError: Hardly any point has a finite density.
    """
    parts = []
    progress("buffer", 0, n)
    for drawn in draws.draw(flow, target, n, batch=CHUNK, generator=generator, purpose=purpose):
        log_p = drawn.log_p
        parts.append(Buffer(drawn.coordinates, drawn.own_log_q, log_p, drawn.log_volume, torch.zeros_like(log_p)))
        progress("buffer", min(len(parts) * CHUNK, n), n)
    whole = Buffer(*(torch.cat(fields) for fields in zip(*parts, strict=True)))
    good = whole.log_q.isfinite() & whole.log_p.isfinite()
    failed = n - int(good.sum())
    if failed > 0.9 * n:
        raise RunError(
            f"{failed} of {n} points have no finite density; expected most of the flow's samples to have one. "
            "Check the target's log density at points of its layout"
        )
    return Drawn(whole.part(good) if failed else whole, failed)
