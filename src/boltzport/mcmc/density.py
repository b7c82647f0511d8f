"""Densities as the kernels see them: two log densities with their gradients, and how they are combined.

Every density on a path is a combination of two parts that do not change along it. With tempering it is
log_base + beta log_p, where the base (for a molecule the volume of its coordinates) is not tempered; with annealing it
is a function of log q, which is then the base, and log p. The parts are stored with each point, so that a new
temperature or a swap needs no evaluation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Values = Float[Tensor, " chains"]
Points = Float[Tensor, "chains dimensions"]
Combination = Callable[[Tensor, Tensor], Tensor]
"""Maps (log_base, log_p) to a log density, pointwise and differentiable."""


class Logs(NamedTuple):
    """The two log densities at some points; minus infinity or NaN outside the support."""

    log_base: Values
    log_p: Values


class Parts(NamedTuple):
    """The two log densities and their gradients at some points."""

    log_base: Values
    log_p: Values
    base_gradient: Points
    p_gradient: Points


class Combined(NamedTuple):
    """A log density and its gradient at some points; the log density is minus infinity where it was not finite."""

    log_density: Values
    gradient: Points


@dataclass(frozen=True, kw_only=True)
class Density:
    """A density in two parts.

    Attributes:
        parts: Maps points to both parts with gradients. The gradients drive the trajectories and may be approximate:
            the acceptance is exact for any function of the point.
        logs: Maps points to both parts in the precision that the acceptance needs; None to use those of `parts`.
    """

    parts: Callable[[Tensor], Parts]
    logs: Callable[[Tensor], Logs] | None = None

    def exact_parts(self, points: Points, parts: Parts | None = None) -> Parts:
        """Parts with the values that the acceptance needs; gradients are taken from `parts` if given."""
        found = self.parts(points) if parts is None else parts
        return found if self.logs is None else found._replace(**self.logs(points)._asdict())


def differentiate(logs: Callable[[Tensor], Logs]) -> Callable[[Tensor], Parts]:
    """Add gradients to a differentiable function, by autograd."""

    def parts(points: Points) -> Parts:
        leaf = points.detach().clone().requires_grad_()
        with torch.enable_grad():
            found = logs(leaf)
            gradients = [
                torch.autograd.grad(log.sum(), leaf, retain_graph=True)[0] if log.requires_grad else None
                for log in found
            ]
        base, p = (torch.zeros_like(points) if gradient is None else gradient for gradient in gradients)
        return Parts(found.log_base.detach(), found.log_p.detach(), base, p)

    return parts


def plain(log_density: Callable[[Tensor], Tensor]) -> Density:
    """A single differentiable log density, as `log_p` with a constant base."""

    def logs(points: Points) -> Logs:
        found = log_density(points)
        return Logs(torch.zeros_like(found, requires_grad=False), found)

    return Density(parts=differentiate(logs))


def target(log_base: Tensor, log_p: Tensor) -> Tensor:
    """The combination without temperature: the density itself."""
    return log_base + log_p


def combine(parts: Parts, combination: Combination) -> Combined:
    """Log density and gradient of a combination, by the chain rule."""
    log_base, log_p = parts.log_base.detach().requires_grad_(), parts.log_p.detach().requires_grad_()
    with torch.enable_grad():
        log_density = combination(log_base, log_p)
        slopes = torch.autograd.grad(log_density.sum(), (log_base, log_p), allow_unused=True)
    of_base, of_p = (torch.zeros_like(log_p) if slope is None else slope for slope in slopes)
    # Log densities may have a higher precision than the points; chains keep the precision of their points.
    of_base, of_p = of_base.to(parts.base_gradient.dtype), of_p.to(parts.p_gradient.dtype)
    gradient = torch.addcmul(of_base[:, None] * parts.base_gradient, of_p[:, None], parts.p_gradient)
    return Combined(_supported(log_density.detach()), gradient)


def log_density_of(parts: Parts, combination: Combination) -> Values:
    """Log density of a combination; minus infinity where it is not finite."""
    with torch.no_grad():
        return _supported(combination(parts.log_base, parts.log_p))


def _supported(log_density: Tensor) -> Tensor:
    return torch.where(log_density.isfinite(), log_density, -torch.inf)
