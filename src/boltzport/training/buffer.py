"""Buffers: samples of a flow with the log densities of flow and target."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.flows import Flow
from boltzport.flows import draw as draw_batches
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.base import Progress

CHUNK = 16384
"""Number of points drawn and evaluated at once."""


class Buffer(NamedTuple):
    """Points where both densities are finite. Log densities are float64, with respect to the target's measure.

    Attributes:
        coordinates: The points.
        log_q: Log density of the flow that the next density is relative to.
        log_p: Log of the unnormalised target.
        log_volume: Log of the target's volume element per unit of coordinates.
        log_base: Log-weights of the points with respect to that flow; zero for its own samples.
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
        """Return a subset of the points."""
        return Buffer(*(field[chosen] for field in self))


class Drawn(NamedTuple):
    """A buffer of this rank, and the number of further points whose density was not finite."""

    buffer: Buffer
    failed: int

    @property
    def log_weights(self) -> Float[Tensor, " drawn"]:
        """Log-weights of all points with respect to the target; minus infinity for those that failed."""
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
    """Draw this rank's share of n points and evaluate the target there; points that fail are removed and counted.

    Raises:
        RunError: Hardly any point has a finite density.
    """
    parts, n = [], ranks().share(n)
    progress("buffer", 0, n)
    for drawn in draw_batches(flow, target, n, batch=CHUNK, generator=generator, purpose=purpose):
        log_p = drawn.log_p
        parts.append(Buffer(drawn.coordinates, drawn.own_log_q, log_p, drawn.log_volume, torch.zeros_like(log_p)))
        progress("buffer", min(len(parts) * CHUNK, n), n)
    whole = Buffer(*(torch.cat(fields) for fields in zip(*parts, strict=True)))
    good = whole.log_q.isfinite() & whole.log_p.isfinite()
    failed = n - int(good.sum())
    all_failed, everything, empty = ranks().total([failed, n, failed == n])
    if all_failed > 0.9 * everything or empty:
        raise RunError(
            f"{all_failed:.0f} of {everything:.0f} samples of the flow have no finite density; expected most of them "
            "to have one. Check the target's log density at points of its layout"
        )
    return Drawn(whole.part(good) if failed else whole, failed)
