"""Anchors: points of broader densities that keep every mode during a refinement.

Path gradients compare slopes, so they shape a mode but hardly see its weight, and samples of the flow say nothing about
modes that the flow has lost. Earlier flows of the annealing were broader: a mixture r of them still covers every mode.
Its points give the gradient of a divergence from the target p to the flow q away from the flow's own samples,

    - E_r[ ((p / r) (p / q) - q / r) grad log q ],

the gradient of E_p[p / q], which is the inverse of the ESS fraction. The second term has mean zero and cancels the
noise where the flow and the target agree.
"""

import copy
import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.core.weights import log_mean
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.base import Progress
from boltzport.training.buffer import CHUNK

HEAVIEST = 25.0
"""Upper bound of the weights with respect to the mixture; larger ones are clipped."""
SCARCEST = 100.0
"""Upper bound of p / q, the target's density over the flow's; larger ratios are clipped."""


class Anchors(NamedTuple):
    """Samples of a mixture of flows. Log densities are float64, with respect to the coordinates.

    Attributes:
        coordinates: The points.
        log_p: Log density of the target, normalised by the estimate of log Z that these points give.
        log_r: Log density of the mixture.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_p: Float[Tensor, " batch"]
    log_r: Float[Tensor, " batch"]


@torch.no_grad()
def draw_anchors(
    flow: Flow,
    proposals: list[dict[str, Tensor]],
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    progress: Progress,
) -> Anchors:
    """Draw this rank's share of points from a mixture of flows with equal weights.

    Args:
        flow: A flow of the same architecture; not modified.
        proposals: Parameters (state dict) of each flow of the mixture.
        target: Target density.
        n: Total number of points, over all flows.
        generator: Random generator.
        progress: Progress callback.
    """
    scratch, parts, log_p = copy.deepcopy(flow), [], []
    each = math.ceil(ranks().share(n) / len(proposals))
    total = 2 * len(proposals)
    for done, weights in enumerate(proposals):
        progress("anchors", done, total)
        scratch.load_state_dict(weights)
        for start in range(0, each, CHUNK):
            points = scratch.sample(min(CHUNK, each - start), generator=generator)
            found = target.evaluate(points, Purpose.TRAINING)
            parts.append(points)
            log_p.append(found.log_p + found.log_volume)
    coordinates, log_target = torch.cat(parts), torch.cat(log_p)
    columns = []
    for done, weights in enumerate(proposals):
        progress("anchors", len(proposals) + done, total)
        scratch.load_state_dict(weights)
        columns.append(scratch.log_prob(coordinates).double())
    progress("anchors", total, total)
    log_r = torch.stack(columns).logsumexp(0) - math.log(len(columns))
    good = log_target.isfinite() & log_r.isfinite()
    log_z = log_mean(ranks().gather(torch.where(good, log_target - log_r, -math.inf))).value
    return Anchors(coordinates[good], log_target[good] - log_z, log_r[good])


def anchor_loss(flow: Flow, anchors: Anchors, n: int, *, generator: torch.Generator) -> Float[Tensor, ""]:
    """Loss whose gradient is that of E_p[p / q], the inverse ESS fraction; its value has no meaning.

    Args:
        flow: The flow q.
        anchors: Samples of the mixture.
        n: Number of anchors to use.
        generator: Random generator that selects the anchors.
    """
    chosen = torch.randint(len(anchors.log_p), (n,), generator=generator, device=generator.device)
    log_q = flow.log_prob(anchors.coordinates[chosen])
    inside = log_q.detach().isfinite()
    log_p, log_r, log_mine = anchors.log_p[chosen], anchors.log_r[chosen], log_q.detach().double()
    wanted = (log_p - log_r).exp().clamp_max(HEAVIEST)
    scarce = (log_p - log_mine).clamp_max(math.log(SCARCEST)).exp()
    present = (log_mine - log_r).exp().clamp_max(HEAVIEST)
    factor = torch.where(inside, wanted * scarce - present, 0.0).to(log_q.dtype)
    return -(factor * log_q.nan_to_num(neginf=0.0)).mean()
