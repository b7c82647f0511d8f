"""The reverse divergence to a tempered target, with the points of highest energy left out.

A target p at the inverse temperature a, in units of its own, is p^a with respect to its own measure: its energy is
scaled, the volume of its coordinates is not. With respect to the coordinates that is a log p + log volume.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.errors import InputError, RunError
from boltzport.flow import Flow
from boltzport.targets import CountedTarget, Purpose


class ReverseLoss(NamedTuple):
    """KL(q || p^a) up to log Z, and all of its points: their log-weights to the temperature 1 / b are b log_p - log_q.

    Attributes:
        loss: To be differentiated once.
        log_q: Log density of the flow with respect to the target's measure.
        log_p: Log of the unnormalised target; NaN or infinite where an evaluation failed.
    """

    loss: Float[Tensor, ""]
    log_q: Float[Tensor, " batch"]
    log_p: Float[Tensor, " batch"]


def reverse_loss(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    inverse_temperature: float = 1.0,
    remove_highest: int = 0,
    generator: torch.Generator,
) -> ReverseLoss:
    """Draw points and make the loss of the reparametrised reverse divergence.

    Args:
        flow: The flow.
        target: The density; must be differentiable.
        n: Number of points.
        inverse_temperature: Of the tempered target, in units of the target's own.
        remove_highest: Points of highest energy that are left out of the loss, those that failed first among them.
        generator: Draws the points.

    Raises:
        InputError: The target has no gradient.
        RunError: No point is left.
    """
    with torch.enable_grad():
        coordinates, log_q = flow.sample_and_log_prob(n, generator=generator)
        # A separate leaf: the slopes of failed points, which are NaN even where nothing asks for them, stay out of
        # the gradient of the flow's weights.
        points = coordinates.detach().requires_grad_()
        log_p, log_volume = target.evaluate(points, Purpose.TRAINING)
        if not log_p.requires_grad:
            raise InputError("the reverse divergence needs a target with a gradient, and this one has none")
        log_tempered = inverse_temperature * log_p + log_volume
        log_q_own = log_q.detach().double() - log_volume.detach()
        kept = _kept(log_p.detach(), log_q_own, remove_highest)
        (slope,) = torch.autograd.grad(log_tempered[kept].sum(), points)
    slope = torch.where(slope.isfinite(), slope, 0.0)
    # Zero in value; its gradient is that of log_tempered along the points.
    along = (slope * (coordinates - points.detach())).sum() / len(kept)
    loss = log_q[kept].mean() - log_tempered.detach()[kept].mean().to(log_q.dtype) - along
    return ReverseLoss(loss, log_q_own, log_p.detach())


def _kept(log_p: Tensor, log_q: Tensor, remove_highest: int) -> Tensor:
    """Numbers of the points that make the loss."""
    good = log_p.isfinite() & log_q.isfinite()
    left = min(len(log_p) - remove_highest, int(good.sum()))
    if left < 1:
        raise RunError(
            f"{int((~good).sum())} of {len(log_p)} points have no finite density, and {remove_highest} are left out; "
            "expected some to be left. Check the target's log density at points of its layout"
        )
    return torch.where(good, log_p, -torch.inf).topk(left).indices
