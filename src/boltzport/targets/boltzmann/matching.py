"""Local coordinates of another description: shifted to its means, and in units of its fluctuations.

Bond lengths and angles differ from one force field to the next by shifts that are small, but many. Where points are
spread around the mode of a density, the slope of its log is about linear in the local coordinates,

    d log p / dx = -K (x - m),

so that a linear regression of slopes finds the normal density N(m, K^-1) that is nearest to it. The linear map between
two of these normal densities that moves points least (the optimal transport) then takes one description to the other.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.targets.boltzmann.harmonic import HarmonicMap

STEEPEST = 5.0
"""Slopes longer than this many times the median belong to clashes, and are left out."""
SOFTEST, STIFFEST = 0.1, 10.0
"""Bounds of the stiffness, in units of that of an independent local coordinate."""
PER_COORDINATE = 6
"""Smallest number of points for each local coordinate."""


class Normal(NamedTuple):
    """A normal density of the local coordinates.

    Attributes:
        mean: Its mean.
        stiffness: Inverse of its covariance.
    """

    mean: Float[Tensor, " local"]
    stiffness: Float[Tensor, "local local"]


def nearest_normal(points: Float[Tensor, "batch local"], slopes: Float[Tensor, "batch local"]) -> Normal:
    """The normal density whose slopes are nearest to those of a log density at some points.

    Args:
        points: Local coordinates.
        slopes: Gradients of the log density with respect to them.

    Example:
        >>> points = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
        >>> mean, stiffness = nearest_normal(points, -2.0 * (points - 0.5))
        >>> [round(value, 3) for value in (*mean.tolist(), *stiffness.diagonal().tolist())]
        [0.5, 0.5, 2.0, 2.0]
    """
    length = slopes.norm(dim=1)
    good = length.isfinite() & (length <= STEEPEST * length[length.isfinite()].median())
    points, slopes = points[good].double(), slopes[good].double()
    centre, slope = points.mean(0), slopes.mean(0)
    stiffness = -torch.linalg.lstsq(points - centre, slopes - slope).solution
    stiffness = _bounded(0.5 * (stiffness + stiffness.T))
    return Normal(centre + torch.linalg.solve(stiffness, slope), stiffness)


def matched(map_: HarmonicMap, before: Normal, after: Normal) -> HarmonicMap:
    """The map with local coordinates in which one normal density is what the other is in those of a given map.

    Args:
        map_: The given map.
        before: Density that a flow has in the local coordinates, whatever they stand for.
        after: Density of another description in the local coordinates of the given map.
    """
    inner = _power(after.stiffness, 0.5)
    outer = _power(after.stiffness, -0.5)
    change = outer @ _power(inner @ before.stiffness @ inner, 0.5) @ outer
    cut = len(map_.turning)
    mixing = map_.mixing.double()
    moved = mixing @ (after.mean - change @ before.mean)
    centre = torch.cat([map_.centre[:cut], map_.centre[cut:] + moved.to(map_.centre)])
    return replace(map_, centre=centre, mixing=(mixing @ change).to(map_.mixing))


def _bounded(stiffness: Tensor) -> Tensor:
    """A stiffness without directions that are nearly free, or have negative curvature."""
    values, vectors = torch.linalg.eigh(stiffness)
    bounded: Tensor = (vectors * values.clamp(SOFTEST, STIFFEST)) @ vectors.T
    return bounded


def _power(matrix: Tensor, exponent: float) -> Tensor:
    """Power of a symmetric positive matrix."""
    values, vectors = torch.linalg.eigh(0.5 * (matrix + matrix.T))
    power: Tensor = (vectors * values**exponent) @ vectors.T
    return power
