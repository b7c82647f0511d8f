"""Splines with a given density on a circle: the initial density of torsions that do not rotate freely."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flows.molecular.fine_spline import MIN_BIN
from boltzport.flows.spline import raw_slope

OPPOSITE = 0.02
"""Fraction of the initial density half a turn from the reference, so that modes there (a cis amide) are found."""
BROADER = 1.6
"""Knots are at the quantiles of a density that is broader by this factor."""
EVENLY = 0.15
"""Fraction of the knots that are evenly spaced on the circle."""
_GRID = 20_000


def narrow_turn(centre: float, width: float, bins: int) -> Float[Tensor, " parameters"]:
    """Raw parameters of a spline that maps a normal density on a circle, with a small opposite mode, to a uniform one.

    Args:
        centre: Mode, in turns from the lower end of the range.
        width: Standard deviation, in turns.
        bins: Number of bins of the spline.
    """
    grid = torch.linspace(0.0, 1.0, _GRID + 1, dtype=torch.float64)
    middle = 0.5 * (grid[1:] + grid[:-1])
    density = _two_sided(middle, centre, width, OPPOSITE)
    spread = EVENLY + (1.0 - EVENLY) * _two_sided(middle, centre, BROADER * width, 0.25)
    knots = _at(_cumulated(spread), grid, torch.linspace(0.0, 1.0, bins + 1, dtype=torch.float64))
    levels = _at(grid, _cumulated(density), knots)
    slopes = _two_sided(knots[:-1], centre, width, OPPOSITE)
    widths, heights = (_raw_sizes(values.diff()) for values in (knots, levels))
    return torch.cat([widths, heights, raw_slope(slopes)])


def _two_sided(place: Tensor, centre: float, width: float, opposite: float) -> Tensor:
    return (1.0 - opposite) * _wrapped(place - centre, width) + opposite * _wrapped(place - centre - 0.5, width)


def _wrapped(deviation: Tensor, width: float) -> Tensor:
    """Normal density on a circle of length one."""
    images = deviation[:, None] + torch.arange(-3, 4, dtype=deviation.dtype)
    return (-0.5 * (images / width) ** 2).exp().sum(1) / (math.sqrt(2 * math.pi) * width)


def _cumulated(density: Tensor) -> Tensor:
    total = torch.cat([density.new_zeros(1), density.cumsum(0)])
    return total / total[-1]


def _at(x: Tensor, y: Tensor, places: Tensor) -> Tensor:
    """Linear interpolation of y(x) for increasing x."""
    right = torch.searchsorted(x.contiguous(), places.contiguous()).clamp(1, len(x) - 1)
    span = (x[right] - x[right - 1]).clamp_min(1e-300)
    part = ((places - x[right - 1]) / span).clamp(0.0, 1.0)
    return y[right - 1] + part * (y[right] - y[right - 1])


def _raw_sizes(sizes: Tensor) -> Tensor:
    """Logits of the given bin sizes, as far as the smallest allowed size permits."""
    shares = ((sizes - MIN_BIN) / (1.0 - len(sizes) * MIN_BIN)).clamp_min(1e-7)
    logits = shares.log()
    return logits - logits.mean()
