"""Autoregressive torsions: each has a spline whose parameters depend on the torsions before it."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from boltzport.core.layout import Axis
from boltzport.flows.couplings.coupling import Moved
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.fine_spline import fine_spline
from boltzport.flows.molecular.geometry import Geometry, Placed
from boltzport.flows.molecular.initial import narrow_turn
from boltzport.flows.molecular.network import Network, angle_features

GAIN = 3.0
"""Scale factor of the network outputs: an empty part of a circle needs very negative logits."""


class Torsions(nn.Module):
    """An autoregressive density on the unit box, periodic in the circles.

    Args:
        axes: The coordinates in autoregressive order; intervals before circles.
        config: Size of the flow.
        generator: Random generator for the initial weights.
        geometry: How the torsions place atoms: networks then see these, and the nearest torsions only.
    """

    offset: Tensor
    turn: Tensor
    lower: Tensor
    length: Tensor

    def __init__(
        self,
        axes: list[Axis],
        config: MolecularConfig,
        *,
        generator: torch.Generator,
        geometry: Geometry | None = None,
    ) -> None:
        super().__init__()
        self.harmonics, self.geometry = config.harmonics, geometry
        self.intervals = sum(not axis.whole_turn for axis in axes)
        self.networks = nn.ModuleList(
            Network(
                self._count_inputs(k),
                config.torsion_hidden,
                3 * config.bins + (k < self.intervals),
                generator=generator,
            )
            for k in range(len(axes))
        )
        offsets = [_initial(axis, config.bins) for axis in axes]
        self.register_buffer("offset", torch.stack(offsets, 1) if offsets else torch.zeros(3 * config.bins, 0))
        # An interval is mapped to half a circle, so that its ends differ.
        turn = [2 * math.pi if axis.whole_turn else math.pi for axis in axes]
        self.register_buffer("turn", torch.tensor(turn, dtype=torch.float64), persistent=False)
        for name, values in (("lower", [a.lower for a in axes]), ("length", [a.upper - a.lower for a in axes])):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64), persistent=False)

    def features(self, points: Float[Tensor, "torsions batch"]) -> Float[Tensor, "features batch"]:
        """Features of torsions for the networks: one, and cosines and sines."""
        angles = angle_features(self.turn[: len(points), None].to(points) * points, self.harmonics)
        return torch.cat([points.new_ones(1, points.shape[1]), angles])

    def count_features(self, torsions: int) -> int:
        """Number of features of a number of torsions."""
        return 1 + 2 * self.harmonics * torsions

    def _count_inputs(self, k: int) -> int:
        if self.geometry is None:
            return self.count_features(k)
        return self.count_features(len(self.geometry.nearest[k])) + self.geometry.count(k)

    def _inputs(self, k: int, features: Tensor, placed: Placed | None) -> Tensor:
        """Inputs of a network, from the features of the torsions before it and the atoms that these place."""
        if self.geometry is None or placed is None:
            return features[: self.count_features(k)]
        each = 2 * self.harmonics
        near = [features[1 + each * j : 1 + each * (j + 1)] for j in self.geometry.nearest[k]]
        return torch.cat([features[:1], *near, placed.features(k)])

    def _placed(self, like: Tensor) -> Placed | None:
        return None if self.geometry is None else self.geometry.begin(like)

    def angles(self, points: Float[Tensor, "torsions batch"]) -> Float[Tensor, "torsions batch"]:
        """Torsions in radian of points in the unit box."""
        return self.lower[: len(points), None].to(points) + self.length[: len(points), None].to(points) * points

    def log_prob(
        self, points: Float[Tensor, "torsions batch"], features: Float[Tensor, "features batch"]
    ) -> Float[Tensor, " batch"]:
        """Log density of points in the unit box."""
        return self.log_conditionals(points, features).sum(0)

    def log_conditionals(
        self, points: Float[Tensor, "torsions batch"], features: Float[Tensor, "features batch"]
    ) -> Float[Tensor, "torsions batch"]:
        """Log density of each torsion given those before it; the parameters of all splines come from one pass."""
        if not len(points):
            return points
        rows, last, placed, angles = [], [], self._placed(points[0]), self.angles(points)
        for k, network in enumerate(self.networks):
            raw = GAIN * network(self._inputs(k, features, placed))
            rows.append(raw[: len(self.offset)])
            last += [raw[-1]] if k < self.intervals else []
            if placed is not None:
                placed.turn(k, angles[k])
        raw = torch.stack(rows, 1) + self.offset[:, :, None].to(points)
        ends = torch.stack(last) if last else points.new_empty(0, points.shape[1])
        return fine_spline(points, raw, ends, inverse=False).log_slopes

    def initial_log_prob(self, points: Float[Tensor, "torsions batch"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow."""
        raw = self.offset[:, :, None].to(points).expand(-1, -1, points.shape[1])
        ends = points.new_zeros(self.intervals, points.shape[1])
        return fine_spline(points, raw, ends, inverse=False).log_slopes.sum(0)

    def sample(
        self, uniform: Float[Tensor, "torsions batch"], *, kept: Bool[Tensor, "torsions batch"] | None = None
    ) -> Moved:
        """Map uniform points to points in the unit box, with minus their log density.

        Args:
            uniform: Uniform points.
            kept: Torsions that are not mapped, but stay where they are; the log density does not know about this.
        """
        batch = uniform.shape[1]
        points, features = uniform.new_empty(0, batch), uniform.new_ones(1, batch)
        log_det = uniform.new_zeros(batch)
        placed = self._placed(log_det)
        for k, network in enumerate(self.networks):
            output = GAIN * network(self._inputs(k, features, placed))
            raw = (output[: len(self.offset)] + self.offset[:, k, None].to(uniform))[:, None]
            ends = output[-1:] if k < self.intervals else output[:0]
            value, log_slope = fine_spline(uniform[k : k + 1], raw, ends, inverse=True)
            if kept is not None:
                value = torch.where(kept[k : k + 1], uniform[k : k + 1], value)
            points, log_det = torch.cat([points, value]), log_det + log_slope[0]
            features = torch.cat([features, angle_features(self.turn[k].to(value) * value, self.harmonics)])
            if placed is not None:
                placed.turn(k, self.lower[k].to(value) + self.length[k].to(value) * value[0])
        return Moved(points, log_det)


def _initial(axis: Axis, bins: int) -> Float[Tensor, " parameters"]:
    """Raw parameters of a coordinate's initial spline: zero for a uniform density."""
    if not math.isfinite(axis.width):
        return torch.zeros(3 * bins, dtype=torch.float64)
    length = axis.upper - axis.lower
    return narrow_turn((axis.centre - axis.lower) / length, axis.width / length, bins)
