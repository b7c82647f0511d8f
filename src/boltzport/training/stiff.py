"""Training of the stiff half of a flow by path gradients, with fixed torsions.

Given the torsions, the stiff coordinates have a single mode, so the reverse divergence loses no modes, and its path
gradient has no noise where the flow agrees with the density. Only the slope of the density is needed. If samples of the
density are known, the forward divergence has a path gradient too, which detects where the flow has too little mass.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.flows import HalvedFlow, SlopedSamples
from boltzport.training.base import Progress
from boltzport.training.optimiser import Optimiser

STEEPEST = 5.0
"""Slopes longer than this many times the median are clipped; they come from single clashing points."""


@dataclass(frozen=True, kw_only=True)
class StiffConfig:
    """Settings of a descent of the stiff half.

    Attributes:
        gradient_steps: Number of gradient steps.
        batch_size: Number of points per gradient step, on all ranks together.
        forward: Fraction of the batch that is taken from known samples of the density, if any, for the forward KL.
    """

    gradient_steps: int
    batch_size: int
    forward: float = 0.0


class KnownPoints(NamedTuple):
    """Samples of the density to be learned, and the gradient of its log density there."""

    coordinates: Float[Tensor, "points dimensions"]
    slope: Float[Tensor, "points dimensions"]


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
    known: KnownPoints | None = None,
) -> float:
    """Minimise a divergence of the stiff coordinates given torsions; return the mean gradient norm.

    Args:
        flow: The flow; modified in place.
        optimiser: Optimiser of the stiff half's weights; modified in place.
        log_density: Maps points to their log density up to a constant; differentiable, with respect to the coordinates.
        torsions: Returns a given number of points, whose torsions are kept fixed.
        config: Settings.
        generator: Random generator for the stiff coordinates.
        progress: Progress callback.
        span: Progress of the whole training at the start and the end of the descent.
        known: Samples of the density, for the forward divergence; None for the reverse divergence alone.

    Raises:
        RunError: A gradient is not finite.
    """
    batch_size = ranks().each(config.batch_size)
    forward = 0 if known is None else round(config.forward * batch_size)
    norms = 0.0
    for done in range(config.gradient_steps):
        loss = torch.zeros((), device=flow.device)
        if forward < batch_size:
            points = torsions(batch_size - forward)
            loss = (1.0 - forward / batch_size) * stiff_path_loss(flow, log_density, points, generator=generator)
        if known is not None and forward:
            chosen = torch.randint(len(known.slope), (forward,), generator=generator, device=generator.device)
            part = KnownPoints(*(field[chosen] for field in known))
            loss = loss + forward / batch_size * forward_path_loss(flow, part)
        norm = optimiser.step(loss, progress=span[0] + (span[1] - span[0]) * done / config.gradient_steps)
        if not math.isfinite(norm):
            raise RunError(
                "the gradient of the stiff coordinates is not finite; a smaller rate of the stiff half may help"
            )
        norms += norm
        progress("stiff", done + 1, config.gradient_steps)
    optimiser.settle()
    return norms / max(config.gradient_steps, 1)


def stiff_path_loss(
    flow: HalvedFlow,
    log_density: Callable[[Tensor], Tensor],
    points: Float[Tensor, "batch dimensions"],
    *,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """Loss whose gradient is the path gradient of KL(flow || density); its value has no meaning.

    Args:
        flow: The flow.
        log_density: See `descend_stiff`.
        points: Points whose torsions are kept fixed.
        generator: Random generator for the stiff coordinates.
    """
    drawn = flow.sample_stiff_with_slope(points, generator=generator)
    with torch.enable_grad():
        held = drawn.coordinates.detach().requires_grad_()
        log_target = log_density(held)
        good = log_target.detach().isfinite()
        (slope,) = torch.autograd.grad(log_target[good].sum(), held)
    return _path_loss(flow, drawn, slope, good)


def forward_path_loss(flow: HalvedFlow, points: KnownPoints) -> Float[Tensor, ""]:
    """Loss whose gradient is the path gradient of KL(density || flow); its value has no meaning.

    With x = T(z) the flow's sample for the base point z, the gradient of KL(p || q) in the flow's parameters is
    -E_p[ grad_x log(p / q) . dT(z) ] with z = T^-1(x) held: E_q[ h(w) d log q ] = E_q[ h'(w) grad_x w . dT ] for any
    function h of w = p / q, here h = -w. Like the reverse one, it vanishes pointwise where p = q.

    Args:
        flow: The flow.
        points: Samples of the density.
    """
    drawn = flow.stiff_with_slope(points.coordinates)
    return _path_loss(flow, drawn, points.slope, drawn.log_q.isfinite())


def _path_loss(flow: HalvedFlow, drawn: SlopedSamples, slope: Tensor, good: Tensor) -> Tensor:
    """Minus the slope of log(density / flow) times the samples, with steep slopes clipped."""
    slope = slope[:, flow.stiff] - drawn.slope
    slope = torch.where(good[:, None] & slope.isfinite(), slope, 0.0)
    norm = (slope * flow.unit[flow.stiff].to(slope)).norm(dim=1, keepdim=True)
    limit = STEEPEST * norm[good].median()
    slope = slope * torch.where(norm > limit, limit / norm, 1.0)
    return -(slope * drawn.coordinates[:, flow.stiff]).sum() / good.sum().clamp_min(1)
