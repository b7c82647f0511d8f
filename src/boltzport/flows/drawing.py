"""Draw points of a flow and weigh them, batch by batch: the one place where this is done."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import Ranks, ranks
from boltzport.core.seeds import LARGEST, of_rank
from boltzport.core.stopwatch import Timing
from boltzport.flows.flow import Flow
from boltzport.targets import CountedTarget, Purpose


class Draw(NamedTuple):
    """A batch of points drawn from a flow.

    Attributes:
        coordinates: The points.
        log_q: Log density of the flow with respect to the coordinates.
        log_p: Log density of the unnormalised target with respect to its own measure; NaN if an evaluation failed.
        log_volume: Log volume element of that measure with respect to the coordinates.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_q: Float[Tensor, " batch"]
    log_p: Float[Tensor, " batch"]
    log_volume: Float[Tensor, " batch"]

    @property
    def own_log_q(self) -> Float[Tensor, " batch"]:
        """Log density of the flow with respect to the target's own measure."""
        return self.log_q.double() - self.log_volume

    @property
    def log_weights(self) -> Float[Tensor, " batch"]:
        """Log-weights with respect to the target; minus infinity where a density is not finite."""
        log_weights = self.log_p + self.log_volume - self.log_q.double()
        return torch.where(log_weights.isfinite(), log_weights, -math.inf)


def draw(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    batch: int,
    generator: torch.Generator,
    purpose: Purpose,
    timing: Timing | None = None,
    split: bool = False,
) -> Iterator[Draw]:
    """Draw points of a flow and evaluate the target at them, without gradients.

    Args:
        flow: The flow.
        target: The target; its ledger counts the evaluations.
        n: Number of points.
        batch: Batch size.
        generator: Random generator, on the device of the flow.
        purpose: Purpose that the evaluations are counted under.
        timing: Records the time of `sampling` and of `energies`.
        split: Whether every rank draws a part of each batch, which all of them get; the others call `draw_along`.
    """
    timing = timing or Timing()
    among = ranks() if split else Ranks()
    if not among.alone:
        n, batch = among.agreed(n), among.agreed(batch)
        seed = among.agreed(int(torch.randint(LARGEST, (), generator=generator, device=generator.device)))
        generator = of_rank(seed, among.rank, device=generator.device)
    with among.watched():
        for start in range(0, n, batch):
            size = min(batch, n - start)
            with torch.no_grad():
                with timing.stage("sampling"):
                    # With fewer points than ranks there are some to spare.
                    samples = flow.sample_and_log_prob(max(1, among.share(size)), generator=generator)
                with timing.stage("energies"):
                    found = target.evaluate(samples.coordinates, purpose)
                drawn = Draw(samples.coordinates, samples.log_q, found.log_p, found.log_volume)
            yield drawn if among.alone else Draw(*(among.gather(field)[:size] for field in drawn))
        if not among.alone:
            target.ledger.agree()


def draw_along(flow: Flow, target: CountedTarget, *, purpose: Purpose) -> None:
    """Draw this rank's part of what rank 0 draws; do nothing on rank 0.

    Args:
        flow: The flow.
        target: The target; its ledger counts the evaluations of all ranks.
        purpose: Purpose that the evaluations are counted under.
    """
    if not ranks().leads:
        generator = torch.Generator(flow.device)
        for _ in draw(flow, target, 1, batch=1, generator=generator, purpose=purpose, split=True):
            pass
