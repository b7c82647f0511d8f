"""Stiff coordinates given the torsions: couplings with smooth transforms of one half given the other."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from boltzport.flows.couplings.coupling import Moved
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.network import Network
from boltzport.flows.molecular.smooth import PARAMETERS, pull_back, smooth

FARTHEST = 8.0
"""Networks see coordinates clipped at this many widths; the linear skip sees them unclipped."""
LOST = 1e3
"""A point that a coupling maps beyond this has no density, and is differentiated as if it were there, to avoid overflow
in the next couplings."""


class Sloped(NamedTuple):
    """Points, their log density and its slope; only the points are attached to the graph."""

    points: Float[Tensor, "stiff batch"]
    slope: Float[Tensor, "stiff batch"]
    log_q: Float[Tensor, " batch"]


class Base(NamedTuple):
    """Normal variables, the log-determinant of the map to them, and a mask of points that have a density."""

    normal: Float[Tensor, "stiff batch"]
    log_det: Float[Tensor, " batch"]
    near: Bool[Tensor, " batch"]


class StiffCoupling(nn.Module):
    """Smooth transforms of some coordinates, with parameters that depend on the others and on the torsions.

    Args:
        moved: Indices of the transformed coordinates.
        fixed: Indices of the other coordinates.
        features: Number of features of the torsions.
        hidden: Widths of the network's hidden layers.
        generator: Random generator for the initial weights.
    """

    moved: Tensor
    fixed: Tensor
    order: Tensor

    def __init__(
        self,
        moved: list[int],
        fixed: list[int],
        features: int,
        hidden: tuple[int, ...],
        *,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.network = Network(len(fixed) + features, hidden, PARAMETERS * len(moved), generator=generator)
        self.skip = nn.Parameter(torch.zeros(len(moved), len(fixed)))
        self.register_buffer("moved", torch.tensor(moved, dtype=torch.long))
        self.register_buffer("fixed", torch.tensor(fixed, dtype=torch.long))

    def forward(
        self,
        points: Float[Tensor, "stiff batch"],
        features: Float[Tensor, "features batch"],
        *,
        inverse: bool,
        compiled: bool,
    ) -> Moved:
        """Transform data to base, or base to data with `inverse`."""
        fixed = points.index_select(0, self.fixed)
        raw = self._raw(fixed, features)
        values, log_slopes = smooth(points.index_select(0, self.moved), raw, inverse=inverse, compiled=compiled)
        return Moved(self._joined(values, fixed), log_slopes.sum(0))

    def sample_with_slope(self, sloped: Sloped, features: Float[Tensor, "features batch"], *, compiled: bool) -> Sloped:
        """Transform base to data, together with the slope of the log density.

        With F from data to base, the slope of log q(F(x)) + log F'(x) is a pull-back of F at x, without a second pass.
        """
        points, slope, log_q = sloped
        fixed = points.index_select(0, self.fixed)
        raw = self._raw(fixed, features)
        values, log_slopes = smooth(points.index_select(0, self.moved), raw, inverse=True, compiled=compiled)
        found = pull_back(values.detach(), raw.detach(), slope.index_select(0, self.moved), compiled=compiled)
        # The network belongs to the graph that the values will be differentiated on, so the graph is retained.
        (through,) = torch.autograd.grad(raw, fixed, found.raw, retain_graph=True)
        slope = self._joined(found.inputs, slope.index_select(0, self.fixed) + through)
        return Sloped(self._joined(values, fixed), slope, log_q - log_slopes.detach().sum(0))

    def _raw(self, fixed: Tensor, features: Tensor) -> Tensor:
        """Raw parameters of the transforms."""
        output = self.network(torch.cat([fixed.clamp(-FARTHEST, FARTHEST), features]))
        # The rows of the shifts come first.
        count = len(self.moved)
        shift = torch.addmm(output[:count], self.skip, fixed)
        return torch.cat([shift, output[count:]]).view(PARAMETERS, count, fixed.shape[1])

    def _joined(self, moved: Tensor, fixed: Tensor) -> Tensor:
        order = torch.cat([self.moved, self.fixed]).argsort()
        return torch.cat([moved, fixed]).index_select(0, order)


class Stiff(nn.Module):
    """A density on the line for every stiff coordinate, in units of its width, given features of the torsions.

    Args:
        count: Number of coordinates.
        features: Number of features of the torsions.
        config: Size of the flow.
        generator: Random generator for the masks and the initial weights.
    """

    def __init__(self, count: int, features: int, config: MolecularConfig, *, generator: torch.Generator) -> None:
        super().__init__()
        self.count = count
        layers = []
        for _ in range(config.pairs if count else 0):
            order = torch.randperm(count, generator=generator).tolist()
            first, second = sorted(order[: count // 2]), sorted(order[count // 2 :])
            for moved, fixed in ((first, second), (second, first)):
                if moved:
                    layers.append(StiffCoupling(moved, fixed, features, config.hidden, generator=generator))
        self.layers = nn.ModuleList(layers)

    def log_prob(
        self, points: Float[Tensor, "stiff batch"], features: Float[Tensor, "features batch"], *, compiled: bool
    ) -> Float[Tensor, " batch"]:
        """Log density given the torsions."""
        normal, log_det, near = self.to_base(points, features, compiled=compiled)
        return torch.where(near, normal_log_prob(normal) + log_det, -torch.inf)

    def to_base(
        self, points: Float[Tensor, "stiff batch"], features: Float[Tensor, "features batch"], *, compiled: bool
    ) -> Base:
        """Map points to normal variables."""
        log_det = points.new_zeros(points.shape[1])
        near = torch.ones_like(log_det, dtype=torch.bool)
        for layer in reversed(self.layers):
            points, change = layer(points, features, inverse=False, compiled=compiled)
            log_det = log_det + change
            near = near & (points.abs() <= LOST).all(0)
            points = points.clamp(-LOST, LOST)
        return Base(points, log_det, near)

    def sample(
        self, normal: Float[Tensor, "stiff batch"], features: Float[Tensor, "features batch"], *, compiled: bool
    ) -> Moved:
        """Map normal variables to points, with the log-determinant of the map."""
        points, log_det = normal, normal.new_zeros(normal.shape[1])
        for layer in self.layers:
            points, change = layer(points, features, inverse=True, compiled=compiled)
            log_det = log_det + change
        return Moved(points, log_det)

    def sample_with_slope(
        self, normal: Float[Tensor, "stiff batch"], features: Float[Tensor, "features batch"], *, compiled: bool
    ) -> Sloped:
        """Map normal variables to differentiable points, with their log density given the torsions and its slope."""
        normal = normal.detach()
        sloped = Sloped(normal.clone().requires_grad_(), -normal, normal_log_prob(normal))
        for layer in self.layers:
            assert isinstance(layer, StiffCoupling)
            sloped = layer.sample_with_slope(sloped, features, compiled=compiled)
            sloped = sloped._replace(points=sloped.points.clamp(-LOST, LOST))
        return sloped


def normal_log_prob(points: Float[Tensor, "stiff batch"]) -> Float[Tensor, " batch"]:
    """Log of the standard normal density."""
    return (-0.5 * points * points).sum(0) - 0.5 * math.log(2 * math.pi) * len(points)
