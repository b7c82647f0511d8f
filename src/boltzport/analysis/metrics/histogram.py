"""Histograms of streamed samples, in blocks, and divergences between them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

EPSILON = 1e-10
"""Constant added to both densities in a divergence, per unit of the grid's area, as in the code of FAB and TA-BG."""


class Grid:
    """Cells of equal size in one or more dimensions; a periodic axis takes values modulo its period.

    Args:
        lower: Lower end of each axis.
        upper: Upper end of each axis, included in the last bin.
        bins: Number of bins of each axis.
        period: Period of each axis; infinite if it is not periodic.
    """

    def __init__(
        self, lower: Sequence[float], upper: Sequence[float], bins: Sequence[int], period: Sequence[float] | None = None
    ) -> None:
        self.lower, self.upper = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
        self.bins = tuple(bins)
        self.period = np.full(len(self.bins), np.inf) if period is None else np.array(period, dtype=np.float64)

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(np.prod(self.bins))

    @property
    def area(self) -> float:
        """Area of a cell."""
        return float(np.prod((self.upper - self.lower) / np.array(self.bins)))

    def edges(self, axis: int = 0) -> Float[np.ndarray, " edges"]:
        """Edges of the bins along an axis."""
        return np.linspace(self.lower[axis], self.upper[axis], self.bins[axis] + 1)

    def cell(self, values: Float[np.ndarray, "batch axes"]) -> Int[np.ndarray, " batch"]:
        """Index of the cell of each point, last axis fastest; -1 outside the grid or if a value is NaN."""
        cells = np.zeros(len(values), dtype=np.int64)
        inside = np.ones(len(values), dtype=bool)
        for axis, bins in enumerate(self.bins):
            lower, upper, period = self.lower[axis], self.upper[axis], self.period[axis]
            value = values[:, axis].astype(np.float64)
            if np.isfinite(period):
                value = lower + np.mod(value - lower, period)
            inside &= (value >= lower) & (value <= upper)
            scaled = np.where(inside, value - lower, 0.0) * (bins / (upper - lower))
            cells = cells * bins + np.minimum(scaled.astype(np.int64), bins - 1)
        return np.where(inside, cells, -1)


class BlockedHistogram:
    """Sums of weights in the cells of a grid, for each block.

    Args:
        grid: The cells.
        blocks: Number of blocks.

    Attributes:
        sums: Sums of weights, (blocks, cells).
        outside: Sum of the weights of points outside the grid.
        count: Number of points, inside or outside.
    """

    def __init__(self, grid: Grid, *, blocks: int) -> None:
        self.grid = grid
        self.sums: Float[np.ndarray, "blocks cells"] = np.zeros((blocks, grid.cells))
        self.outside = 0.0
        self.count = 0

    def add(
        self,
        values: Float[np.ndarray, "batch axes"],
        block: Int[np.ndarray, " batch"],
        weights: Float[np.ndarray, " batch"] | None = None,
    ) -> None:
        """Add points with their weights, which are one by default."""
        cell = self.grid.cell(values)
        inside = cell >= 0
        weight = np.ones(len(cell)) if weights is None else weights
        self.outside += float(weight[~inside].sum())
        self.count += len(cell)
        np.add.at(self.sums.reshape(-1), (block * self.grid.cells + cell)[inside], weight[inside])

    def rescale(self, factor: float) -> None:
        """Multiply all weights added so far."""
        self.sums *= factor
        self.outside *= factor

    def probabilities(self) -> Float[np.ndarray, " cells"]:
        """Probability of each cell for points inside the grid."""
        return normalise(self.sums.sum(0))

    def replicates(self, draws: Float[np.ndarray, "replicates blocks"]) -> Float[np.ndarray, "replicates cells"]:
        """Probabilities from resampled blocks."""
        return normalise(draws @ self.sums)


def normalise(sums: Float[np.ndarray, "*batch cells"]) -> Float[np.ndarray, "*batch cells"]:
    """Probabilities from sums of weights; NaN if all weights are zero."""
    total = sums.sum(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / total)


def forward_kl(
    reference: Float[np.ndarray, "*batch cells"], model: Float[np.ndarray, "*batch cells"], *, area: float
) -> Float[np.ndarray, "*batch"]:
    """Divergence KL(reference || model) of histograms, as FAB and TA-BG compute it.

    ``sum_i P_i log((P_i / a + epsilon) / (Q_i / a + epsilon))`` with the area a of a cell and epsilon 1e-10. A cell
    that the reference visits and the model does not costs its probability times about 20 nats instead of infinity.

    Args:
        reference: Probabilities of the reference's cells.
        model: Probabilities of the model's cells.
        area: Area of a cell.
    """
    ratio = np.log(reference / area + EPSILON) - np.log(model / area + EPSILON)
    return np.asarray((reference * ratio).sum(-1))


def total_variation(
    reference: Float[np.ndarray, "*batch cells"], model: Float[np.ndarray, "*batch cells"]
) -> Float[np.ndarray, "*batch"]:
    """Half the sum of the absolute differences of probabilities: the misplaced mass, 0 to 1.

    The paper multiplies by the area of a cell, a = (2 pi / 100)^2 = 0.00395. If its P and Q are densities, this gives
    the same metric; if they are "discrete normalized histograms", as it says, it gives this metric times a.
    """
    return np.asarray(0.5 * np.abs(reference - model).sum(-1))
