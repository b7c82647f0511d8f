"""Double wells: any number of copies of exp(-x^4 + 6 x^2 + x / 2) times a normal."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.layout import Layout, interval
from boltzport.targets.toy import Toy

REACH = 6.0
"""Half the width of the box; the density at its ends is at most 1e-8 of the density at its centre."""


class ManyWell(Toy):
    """Independent pairs of x, with two unequal wells, and y, normal (the many-well target of the FAB paper).

    The coordinates are x_1, y_1, x_2, y_2 and so on. A mode is one choice of well for each x.

    Args:
        name: Name of the target.
        pairs: Number of pairs.
    """

    def __init__(self, name: str, pairs: int) -> None:
        super().__init__(name, Layout(interval(-REACH, REACH, centre=0.0, width=1.0) for _ in range(2 * pairs)))
        self.pairs = pairs
        # The trapezoidal rule on a smooth function that vanishes at both ends is exact to rounding.
        self._grid = torch.linspace(-REACH, REACH, 20_001, dtype=torch.float64)
        density = _log_well(self._grid).exp()
        self._total = float(torch.trapezoid(density, self._grid))
        self._cumulative = torch.cumulative_trapezoid(density, self._grid) / self._total
        self.right = 1.0 - float(self._cumulative[10_000 - 1])

    @property
    def log_z(self) -> float:
        """Log of the normalising constant."""
        return self.pairs * (math.log(self._total) + 0.5 * math.log(2 * math.pi))

    @property
    def modes(self) -> Float[Tensor, " modes"]:
        """Probabilities of the modes; the lowest bit of a mode's index is the well of the first pair."""
        numbers = torch.arange(2**self.pairs)
        rights = torch.stack([(numbers >> i) & 1 for i in range(self.pairs)]).sum(0).double()
        return (math.log(self.right) * rights + math.log1p(-self.right) * (self.pairs - rights)).exp()

    def log_density(self, points: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log of the unnormalised density."""
        x, y = points[:, 0::2], points[:, 1::2]
        return (_log_well(x) - 0.5 * y * y).sum(1)

    def mode_of(self, points: Float[Tensor, "batch dimensions"]) -> Int[Tensor, " batch"]:
        """Index of the mode that each point belongs to."""
        powers = 2 ** torch.arange(self.pairs)
        return ((points[:, 0::2] > 0).long() * powers).sum(1)

    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "batch dimensions"]:
        """Independent samples, by inversion of the cumulative distribution function on a fine grid."""
        uniform = torch.rand(n, self.pairs, dtype=torch.float64, generator=generator)
        cell = torch.searchsorted(self._cumulative, uniform).clamp_max(len(self._cumulative) - 1)
        lower = torch.cat([torch.zeros(1, dtype=torch.float64), self._cumulative])[cell]
        part = ((uniform - lower) / (self._cumulative[cell] - lower)).clamp(0.0, 1.0)
        x = self._grid[cell] + part * (self._grid[1] - self._grid[0])
        y = torch.randn(n, self.pairs, dtype=torch.float64, generator=generator)
        return torch.stack([x, y], 2).flatten(1)


def _log_well(x: Tensor) -> Tensor:
    return -(x**4) + 6.0 * x * x + 0.5 * x
