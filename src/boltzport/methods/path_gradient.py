"""Path gradients: gradients of divergences through the samples alone, without noise where flow and target agree.

For points x = T(z) of the flow and w = p / q, a divergence E_q[f(w)] has the gradient

    - E_q[ f''(w) w^2  grad_x log w  .  dT/dtheta ],

the score of the flow left out since its mean is zero (Roeder et al. 2017, Tucker et al. 2019, Vaitl et al. 2024). The
factor is 1 for the reverse Kullback-Leibler divergence, which seeks modes, and w for the forward one, which covers
them.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.errors import InputError
from boltzport.flow import Flow
from boltzport.targets import CountedTarget, Purpose

STEEPEST = 10.0
"""Gradients longer than this many times the median are shortened: those of single clashing points."""

HEAVIEST = 10.0
"""Larger weights, in units of the mean, are cut to it: a single point must not steer a step."""


class SampledLoss(NamedTuple):
    """A loss and all points of the flow behind it: their log-weights to the temperature 1 / b are b log_p - log_q.

    Attributes:
        loss: To be differentiated once.
        log_q: Log density of the flow with respect to the target's measure.
        log_p: Log of the unnormalised target; not finite where it failed.
    """

    loss: Float[Tensor, ""]
    log_q: Float[Tensor, " batch"]
    log_p: Float[Tensor, " batch"]

    @property
    def log_weights(self) -> Float[Tensor, " batch"]:
        """Log-weights to the target itself."""
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
    """Draw points and make the loss of a mixture of both divergences; its value means nothing, its gradient does.

    Args:
        flow: The flow.
        target: The density; must be differentiable.
        n: Number of points.
        generator: Draws the points.
        forward: Part of the forward divergence, 0 to 1.
        inverse_temperature: Of the tempered target, in units of the target's own.
        leave_out: Points of the highest energies that move nothing.

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
    """Check that a target can be differentiated.

    Raises:
        InputError: It cannot.
    """
    if not log_p.requires_grad:
        raise InputError(
            "path gradients and the reverse divergence need a target with a gradient, and this one has none; "
            "train with cmt and leave refine at 0"
        )


def lower_energies(log_p: Float[Tensor, " batch"], *, leave_out: int) -> Bool[Tensor, " batch"]:
    """All points but so many with the highest energies; a point whose evaluation failed counts as the highest.

    Example:
        >>> lower_energies(torch.tensor([-3.0, 5.0, torch.nan, -4.0]), leave_out=2)
        tensor([ True,  True, False, False])
    """
    kept = torch.ones_like(log_p, dtype=torch.bool)
    kept[log_p.nan_to_num(nan=-torch.inf, neginf=-torch.inf).argsort()[:leave_out]] = False
    return kept


def _shortened(slope: Tensor, flow: Flow, good: Tensor) -> Tensor:
    """Slopes with the longest cut, as measured in the units of the flow."""
    slope = torch.where(good[:, None] & slope.isfinite(), slope, 0.0)
    norm = (slope * flow.unit.to(slope.dtype)).norm(dim=1, keepdim=True)
    limit = STEEPEST * norm[good].median()
    return slope * torch.where(norm > limit, limit / norm, 1.0)
