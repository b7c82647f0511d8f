"""The stiff half of a flow by path gradients, the torsions held.

Given the torsions, the stiff coordinates have one mode, so the reverse divergence loses nothing; and its path gradient
has no noise where the flow agrees with its density. Only the density's slope is needed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.errors import RunError
from boltzport.flow import HalvedFlow
from boltzport.methods.base import Progress
from boltzport.methods.optimiser import Optimiser

STEEPEST = 5.0
"""Slopes longer than this many times the median are shortened: those of single clashing points."""


@dataclass(frozen=True, kw_only=True)
class StiffConfig:
    """Settings of a descent of the stiff half.

    Attributes:
        gradient_steps: Gradient steps.
        batch_size: Points of a gradient step.
    """

    gradient_steps: int
    batch_size: int


def descend_stiff(
    flow: HalvedFlow,
    optimiser: Optimiser,
    log_density: Callable[[Tensor], Tensor],
    torsions: Callable[[int], Tensor],
    config: StiffConfig,
    *,
    generator: torch.Generator,
    progress: Progress,
    span: tuple[float, float],
) -> float:
    """Descend on KL(flow || density) of the stiff coordinates given torsions; return the mean gradient norm.

    Args:
        flow: Is changed.
        optimiser: Of the stiff half's weights; is changed.
        log_density: Points to their log density up to a constant, differentiable, with respect to the coordinates.
        torsions: Gives so many points whose torsions are held.
        config: Settings.
        generator: Draws the stiff coordinates.
        progress: Is told how far the descent is.
        span: Progress of the whole training at the beginning and at the end of the descent.

    Raises:
        RunError: A gradient is not finite.
    """
    norms = 0.0
    for done in range(config.gradient_steps):
        loss = stiff_path_loss(flow, log_density, torsions(config.batch_size), generator=generator)
        norm = optimiser.step(loss, progress=span[0] + (span[1] - span[0]) * done / config.gradient_steps)
        if not math.isfinite(norm):
            raise RunError(
                "the gradient of the stiff coordinates is not finite; a smaller rate of the stiff half may help"
            )
        norms += norm
        progress("stiff", done + 1, config.gradient_steps)
    return norms / max(config.gradient_steps, 1)


def stiff_path_loss(
    flow: HalvedFlow,
    log_density: Callable[[Tensor], Tensor],
    points: Float[Tensor, "batch dimensions"],
    *,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """A loss whose gradient is the path gradient of the stiff half; its value means nothing.

    Args:
        flow: The flow.
        log_density: See `descend_stiff`.
        points: Their torsions are held.
        generator: Draws the stiff coordinates.
    """
    coordinates, slope_of_flow = flow.sample_stiff_with_slope(points, generator=generator)
    with torch.enable_grad():
        held = coordinates.detach().requires_grad_()
        log_target = log_density(held)
        good = log_target.detach().isfinite()
        (slope,) = torch.autograd.grad(log_target[good].sum(), held)
    slope = slope[:, flow.stiff] - slope_of_flow
    slope = torch.where(good[:, None] & slope.isfinite(), slope, 0.0)
    norm = (slope * flow.unit[flow.stiff].to(slope)).norm(dim=1, keepdim=True)
    limit = STEEPEST * norm[good].median()
    slope = slope * torch.where(norm > limit, limit / norm, 1.0)
    return -(slope * coordinates[:, flow.stiff]).sum() / good.sum().clamp_min(1)
