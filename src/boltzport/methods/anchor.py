"""Anchors: points of broader densities that hold a refinement to every mode.

Path gradients compare slopes, so they shape a mode but hardly see its weight, and points of the flow itself say nothing
of what the flow has forgotten. The flows of an annealing were broader: a mixture r of them still covers every mode, and
with its points the gradient of a divergence from the target p to the flow q is known off the flow,

    - E_r[ ((p / r) (p / q) - q / r) grad log q ],

that of E_p[p / q], the inverse of the effective fraction; the second term has mean zero and takes the noise away where
the flow and the target agree.
"""

import copy
import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import Flow
from boltzport.methods.base import Progress
from boltzport.methods.buffer import CHUNK
from boltzport.targets import CountedTarget, Purpose
from boltzport.weights import log_mean

HEAVIEST = 25.0
"""Larger weights over the mixture are cut to it."""
SCARCEST = 100.0
"""Where the flow has still less of the target than one part in so many, it counts as that."""


class Anchors(NamedTuple):
    """Points of a mixture of flows. Log densities are float64, with respect to the coordinates.

    Attributes:
        coordinates: The points.
        log_p: Log of the target, normalised by what the points make of its constant.
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
    """Draw points from a mixture of flows with equal parts.

    Args:
        flow: Of the same architecture; is not changed.
        proposals: Weights of the flows.
        target: The density.
        n: Number of points, over all flows.
        generator: Draws them.
        progress: Is told how far the drawing is.
    """
    scratch, parts, log_p = copy.deepcopy(flow), [], []
    each = math.ceil(n / len(proposals))
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
    log_z = log_mean(torch.where(good, log_target - log_r, -math.inf)).value
    return Anchors(coordinates[good], log_target[good] - log_z, log_r[good])


def anchor_loss(flow: Flow, anchors: Anchors, n: int, *, generator: torch.Generator) -> Float[Tensor, ""]:
    """A loss whose gradient is that of E_p[p / q], the inverse effective fraction; its value means nothing.

    Args:
        flow: The flow q.
        anchors: Points of the mixture.
        n: How many of them are used.
        generator: Chooses them.
    """
    chosen = torch.randint(len(anchors.log_p), (n,), generator=generator)
    log_q = flow.log_prob(anchors.coordinates[chosen])
    inside = log_q.detach().isfinite()
    log_p, log_r, log_mine = anchors.log_p[chosen], anchors.log_r[chosen], log_q.detach().double()
    wanted = (log_p - log_r).exp().clamp_max(HEAVIEST)
    scarce = (log_p - log_mine).clamp_max(math.log(SCARCEST)).exp()
    present = (log_mine - log_r).exp().clamp_max(HEAVIEST)
    factor = torch.where(inside, wanted * scarce - present, 0.0).to(log_q.dtype)
    return -(factor * log_q.nan_to_num(neginf=0.0)).mean()
