"""A coupling layer: splines transform some coordinates, with parameters that depend on the others."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.flows.couplings.conditioner import Activation, Conditioner
from boltzport.flows.spline import spline


class Moved(NamedTuple):
    """Transformed points, and the log-determinant of the transform."""

    points: Float[Tensor, "dimensions batch"]
    log_det: Float[Tensor, " batch"]


class Coupling(nn.Module):
    """Splines on some coordinates, conditioned on the others, then a rotation of the circles by fixed angles.

    `forward` maps data to base, for the likelihood; `inverse` maps base to data, for sampling.

    Args:
        transformed: Indices of the transformed coordinates, intervals before circles.
        fixed: Indices of the other coordinates, intervals before circles.
        circular: Whether each coordinate is a circle.
        centre: Origin of each coordinate in the features of the conditioner.
        scale: Unit of each coordinate in the features of the conditioner.
        bins: Number of bins per spline.
        hidden: Widths of the conditioner's hidden layers.
        activation: Activation function of the conditioner.
        generator: Random generator for the initial weights and the angles.
    """

    transformed: Tensor
    fixed: Tensor
    order: Tensor
    turn: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(
        self,
        *,
        transformed: list[int],
        fixed: list[int],
        circular: list[bool],
        centre: Tensor,
        scale: Tensor,
        bins: int,
        hidden: tuple[int, ...],
        activation: Activation,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.fixed_intervals = sum(not circular[i] for i in fixed)
        self.conditioner = Conditioner(
            self.fixed_intervals + 2 * (len(fixed) - self.fixed_intervals),
            hidden=hidden,
            outputs=3 * bins,
            dimensions=len(transformed),
            intervals=sum(not circular[i] for i in transformed),
            activation=activation,
            generator=generator,
        )
        # A saved flow needs these besides its weights: the transformed coordinates, and the rotations.
        self.register_buffer("transformed", torch.tensor(transformed, dtype=torch.long))
        self.register_buffer("fixed", torch.tensor(fixed, dtype=torch.long))
        turns = torch.rand(len(circular), dtype=torch.float64, generator=generator)
        self.register_buffer("turn", turns * torch.tensor(circular, dtype=torch.float64))
        self.register_buffer("order", torch.tensor(transformed + fixed).argsort(), persistent=False)
        self.register_buffer("centre", centre, persistent=False)
        self.register_buffer("scale", scale, persistent=False)
        self.register_load_state_dict_post_hook(_follow_masks)  # type: ignore[no-untyped-call]

    def forward(self, points: Float[Tensor, "dimensions batch"], *, compiled: bool) -> Moved:
        """Transform data to base."""
        return self._transform(self._rotate(points, -1), inverse=False, compiled=compiled)

    def inverse(self, points: Float[Tensor, "dimensions batch"], *, compiled: bool) -> Moved:
        """Transform base to data."""
        moved = self._transform(points, inverse=True, compiled=compiled)
        return Moved(self._rotate(moved.points, 1), moved.log_det)

    def _transform(self, points: Tensor, *, inverse: bool, compiled: bool) -> Moved:
        fixed = points.index_select(0, self.fixed)
        raw, last = self.conditioner(self._features(fixed))
        values, log_slopes = spline(
            points.index_select(0, self.transformed), raw, last, inverse=inverse, compiled=compiled
        )
        return Moved(torch.cat([values, fixed]).index_select(0, self.order), log_slopes.sum(0))

    def _features(self, fixed: Tensor) -> Tensor:
        """Intervals as numbers, circles as cosine and sine."""
        angles = 2.0 * math.pi * fixed[self.fixed_intervals :]
        intervals = self.fixed[: self.fixed_intervals]
        centre, scale = self.centre[intervals, None], self.scale[intervals, None]
        numbers = (fixed[: self.fixed_intervals] - centre.to(fixed.dtype)) / scale.to(fixed.dtype)
        return torch.cat([numbers, angles.cos(), angles.sin()])

    def _rotate(self, points: Tensor, sign: int) -> Tensor:
        turned = points + sign * self.turn.to(points.dtype)[:, None]
        # Intervals have turn 0 and stay; remainder would take their upper end to 0.
        return torch.where(self.turn[:, None] != 0.0, torch.remainder(turned, 1.0), points)


def _follow_masks(coupling: nn.Module, _keys: object) -> None:
    """Recompute everything that depends on the loaded masks."""
    # A function and not a method: a copy of the coupling would call the method of the original.
    assert isinstance(coupling, Coupling)
    coupling.order.copy_(torch.cat([coupling.transformed, coupling.fixed]).argsort())
