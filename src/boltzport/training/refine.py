"""Refinement of a flow that covers every mode: path gradients on fresh points, and anchors that keep the modes."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import Reweighting, reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget
from boltzport.training.anchor import Anchors, anchor_loss
from boltzport.training.base import Progress
from boltzport.training.optimiser import Optimiser
from boltzport.training.path_gradient import path_loss


@dataclass(frozen=True, kw_only=True)
class RefineConfig:
    """Settings of a refinement.

    Attributes:
        steps: Number of gradient steps.
        batch: Number of points per gradient step.
        forward: Weight of the forward divergence in the path gradients, 0 to 1.
        anchor_batch: Number of anchors per gradient step.
        anchor_part: Weight of the anchors in the loss, 0 to 1.
    """

    steps: int
    batch: int
    forward: float
    anchor_batch: int
    anchor_part: float


class RefineInfo(NamedTuple):
    """Result of a refinement.

    Attributes:
        gradient_norm: Mean gradient norm before clipping.
        flow: Metrics over all points drawn during the refinement, each weighted by the flow that drew it.
    """

    gradient_norm: float
    flow: Reweighting


def refine(
    flow: Flow,
    optimiser: Optimiser,
    target: CountedTarget,
    config: RefineConfig,
    anchors: Anchors | None,
    *,
    generator: torch.Generator,
    progress: Progress,
    span: tuple[float, float],
) -> RefineInfo:
    """Refine a flow by path gradients.

    Args:
        flow: The flow; modified in place.
        optimiser: Optimiser of the flow's weights; modified in place.
        target: Target density; must be differentiable.
        config: Settings.
        anchors: Points that keep the modes, if any.
        generator: Random generator.
        progress: Progress callback.
        span: Progress of the whole refinement at the start and the end of this call.

    Raises:
        RunError: A gradient is not finite.
    """
    log_weights, norms = [], 0.0
    for done in range(config.steps):
        found = path_loss(flow, target, ranks().each(config.batch), forward=config.forward, generator=generator)
        loss = found.loss
        if anchors is not None:
            anchored = anchor_loss(flow, anchors, ranks().each(config.anchor_batch), generator=generator)
            loss = (1.0 - config.anchor_part) * loss + config.anchor_part * anchored
        norm = optimiser.step(loss, progress=span[0] + (span[1] - span[0]) * done / config.steps)
        if not math.isfinite(norm):
            raise RunError("the gradient of a refining step is not finite; a smaller refine_rate may help")
        log_weights.append(found.log_weights)
        norms += norm
        progress("refine", done + 1, config.steps)
    optimiser.settle()
    return RefineInfo(norms / config.steps, reweighting(ranks().gather(torch.cat(log_weights))))
