"""Path gradients: gradients of divergences through the samples only, without noise where flow and target agree.

For points x = T(z) of the flow and w = p / q, a divergence E_q[f(w)] has the gradient

    - E_q[ f''(w) w^2  grad_x log w  .  dT/dtheta ],

without the score of the flow, whose mean is zero (Roeder et al. 2017, Tucker et al. 2019, Vaitl et al. 2024). The
factor f''(w) w^2 is 1 for the mode-seeking reverse Kullback-Leibler divergence, and w for the mode-covering forward
one.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose

STEEPEST = 10.0
"""Gradients longer than this many times the median are clipped; they come from single clashing points."""

HEAVIEST = 10.0
"""Upper bound of the weights, in units of their mean: a single point must not dominate a step."""


class SampledLoss(NamedTuple):
    """A loss and the flow's samples that it comes from; their log-weights at temperature 1 / b are b log_p - log_q.

    Attributes:
        loss: The loss, which can be differentiated once.
        log_q: Log density of the flow with respect to the target's measure.
        log_p: Log of the unnormalised target; not finite where the evaluation failed.
    """

    loss: Float[Tensor, ""]
    log_q: Float[Tensor, " batch"]
    log_p: Float[Tensor, " batch"]

    @property
    def log_weights(self) -> Float[Tensor, " batch"]:
        """Log-weights with respect to the target itself."""
        return self.log_p - self.log_q


def path_loss(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    forward: float = 0.0,
    inverse_temperature: float = 1.0,
    leave_out: int = 0,
) -> SampledLoss:
    """Draw points and return the loss of a mixture of both divergences; only its gradient has a meaning.

    Args:
        flow: The flow.
        target: Target density; must be differentiable.
        n: Number of points.
        generator: Random generator.
        forward: Weight of the forward divergence, 0 to 1.
        inverse_temperature: Inverse temperature of the tempered target, in units of the target's own.
        leave_out: Number of points with the highest energies that are left out of the loss.

    Raises:
        InputError: The target has no gradient.
    """
    with torch.enable_grad():
        coordinates = flow.sample_and_log_prob(n, generator=generator).coordinates
        points = coordinates.detach().requires_grad_()
        log_p, log_volume = target.evaluate(points, Purpose.TRAINING)
        require_gradient(log_p)
        log_q = flow.log_prob(points).double() - log_volume
        log_weights = inverse_temperature * log_p - log_q
        good = lower_energies(log_p.detach(), leave_out=leave_out) & log_weights.detach().isfinite()
        (slope,) = torch.autograd.grad(log_weights[good].sum(), points)
    log_weights = log_weights.detach()
    weights = (torch.softmax(torch.where(good, log_weights, -torch.inf), 0) * good.sum()).clamp_max(HEAVIEST)
    factor = ((1.0 - forward) + forward * weights) * good
    direction = _shortened(slope, flow, good) * factor[:, None].to(slope.dtype)
    return SampledLoss(-(direction * coordinates).sum() / good.sum(), log_q.detach(), log_p.detach())


def require_gradient(log_p: Float[Tensor, " batch"]) -> None:
    """Check that a target is differentiable.

    Raises:
        InputError: The target has no gradient.
    """
    if not log_p.requires_grad:
        raise InputError(
            "path gradients and the reverse divergence need a target with a gradient, but this one has none; "
            "train with cmt and leave refine at 0"
        )


def lower_energies(log_p: Float[Tensor, " batch"], *, leave_out: int) -> Bool[Tensor, " batch"]:
    """Mask of all points except the `leave_out` highest in energy; points whose evaluation failed rank highest.

    Example:
        >>> lower_energies(torch.tensor([-3.0, 5.0, torch.nan, -4.0]), leave_out=2)
        tensor([ True,  True, False, False])
    """
    kept = torch.ones_like(log_p, dtype=torch.bool)
    kept[log_p.nan_to_num(nan=-torch.inf, neginf=-torch.inf).argsort()[:leave_out]] = False
    return kept


def _shortened(slope: Tensor, flow: Flow, good: Tensor) -> Tensor:
    """Clip the longest slopes, measured in the units of the flow."""
    slope = torch.where(good[:, None] & slope.isfinite(), slope, 0.0)
    norm = (slope * flow.unit.to(slope.dtype)).norm(dim=1, keepdim=True)
    limit = STEEPEST * norm[good].median()
    return slope * torch.where(norm > limit, limit / norm, 1.0)
