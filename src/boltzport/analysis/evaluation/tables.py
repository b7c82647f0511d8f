"""All histograms of one set of samples, on grids that the model and the reference share."""

import math
from dataclasses import dataclass

import numpy as np

from boltzport.analysis.evaluation.frames import ReferenceFrames
from boltzport.analysis.evaluation.observables import Observables, is_circle
from boltzport.analysis.metrics import (
    BasinSums,
    Batch,
    BlockedHistogram,
    Grid,
    Tica,
    basin_codes,
    basin_name,
    clip_largest,
    sector_codes,
    sector_name,
    tica_grid,
    torsion_features,
    torus_grid,
)

BINS = 100
"""Number of bins of marginals, energies and planes, along each axis."""


@dataclass(frozen=True, kw_only=True)
class Grids:
    """Grids of the histograms.

    Attributes:
        marginals: Grid of each coordinate.
        energy: Grid of the reduced energy.
        plane: Grid of the first two coordinates of a toy.
        tica: The map to the slow coordinates, and their grid.
    """

    marginals: tuple[Grid, ...]
    energy: Grid
    plane: Grid | None
    tica: tuple[Tica, Grid] | None


def make_grids(
    observables: Observables,
    first: Batch,
    *,
    frames: ReferenceFrames | None,
    tica: Tica | None,
) -> Grids:
    """Grids that contain the first batch of the model and the whole reference.

    Args:
        observables: Observables to count.
        first: First batch of samples of the model.
        frames: The reference.
        tica: Slow coordinates of the reference.
    """
    marginals = []
    for column, axis in enumerate(observables.layout):
        lower, upper = axis.lower, axis.upper
        if not is_circle(observables.layout, column):
            values = first.coordinates[:, column].astype(np.float64)
            if frames is not None:
                values = np.concatenate([values, frames.coordinates[:, column]])
            if math.isfinite(axis.period):
                values = lower + np.mod(values - lower, axis.period)
            values = values[(values >= lower) & (values <= upper)]
            if len(values) and np.ptp(values) > 0:
                margin = 0.05 * float(np.ptp(values))
                lower, upper = max(lower, float(values.min()) - margin), min(upper, float(values.max()) + margin)
        marginals.append(Grid((lower,), (upper,), (BINS,), (axis.period,)))
    plane = None
    if observables.plane is not None:
        axes = [observables.layout[column] for column in observables.plane]
        ends = [axis.lower for axis in axes], [axis.upper for axis in axes]
        plane = Grid(*ends, (BINS, BINS), [axis.period for axis in axes])
    slow = None
    if tica is not None and frames is not None:
        features = torsion_features(frames.coordinates[:, list(observables.torsions)])
        slow = (tica, tica_grid(tica.project(features)))
    return Grids(marginals=tuple(marginals), energy=_energy_grid(first, frames), plane=plane, tica=slow)


def _energy_grid(first: Batch, frames: ReferenceFrames | None) -> Grid:
    """From the lowest energy to beyond the 99.9 % quantile, with margins of 0.1 and 0.5 of that range."""
    if frames is not None:
        lower, upper = float(frames.reduced_energy.min()), float(np.quantile(frames.reduced_energy, 0.999))
    else:
        finite = np.isfinite(first.log_weights)
        if not finite.any():
            return Grid((0.0,), (1.0,), (BINS,))
        energy, log_weights = first.reduced_energy[finite], clip_largest(first.log_weights[finite])
        order = np.argsort(energy)
        cumulative = np.cumsum(np.exp(log_weights - log_weights.max())[order])
        lower = float(energy.min())
        upper = float(energy[order[np.searchsorted(cumulative, 0.999 * cumulative[-1])]])
    span = max(upper - lower, 1.0)
    return Grid((lower - 0.1 * span,), (upper + 0.5 * span,), (BINS,))


class Tables:
    """Histograms of one set of samples: of a model, unweighted or weighted, or of a reference.

    Args:
        observables: Observables to count.
        grids: Grids of the histograms.
        blocks: Number of blocks for the bootstrap.
    """

    def __init__(self, observables: Observables, grids: Grids, *, blocks: int) -> None:
        self.observables, self.grids, self.blocks = observables, grids, blocks
        self.pairs = [BlockedHistogram(torus_grid(), blocks=blocks) for _ in observables.pairs]
        self.plane = None if grids.plane is None else BlockedHistogram(grids.plane, blocks=blocks)
        self.marginals = [BlockedHistogram(grid, blocks=blocks) for grid in grids.marginals]
        self.energy = BlockedHistogram(grids.energy, blocks=blocks)
        self.tica = None if grids.tica is None else BlockedHistogram(grids.tica[1], blocks=blocks)
        self.basins = BasinSums(blocks=blocks)

    def add(
        self, coordinates: np.ndarray, energy: np.ndarray, block: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        """Count samples, with weights of one by default."""
        for histogram, pair in zip(self.pairs, self.observables.pairs, strict=True):
            histogram.add(coordinates[:, [pair.first, pair.second]], block, weights)
        if self.plane is not None and self.observables.plane is not None:
            self.plane.add(coordinates[:, list(self.observables.plane)], block, weights)
        for column, histogram in enumerate(self.marginals):
            histogram.add(coordinates[:, column : column + 1], block, weights)
        self.energy.add(energy[:, None], block, weights)
        if self.tica is not None and self.grids.tica is not None:
            features = torsion_features(coordinates[:, list(self.observables.torsions)])
            self.tica.add(self.grids.tica[0].project(features), block, weights)
        if self.observables.has_basins:
            self.basins.add(codes_of(self.observables, coordinates), block, weights)

    def rescale(self, factor: float) -> None:
        """Multiply all weights counted so far."""
        for histogram in self._histograms():
            histogram.rescale(factor)
        self.basins.rescale(factor)

    def halves(self) -> tuple["Tables", "Tables"]:
        """The even and the odd blocks, as two sets of samples."""
        parts = []
        for start in (0, 1):
            half = Tables(self.observables, self.grids, blocks=len(range(start, self.blocks, 2)))
            for histogram, whole in zip(half._histograms(), self._histograms(), strict=True):
                histogram.sums[:] = whole.sums[start::2]
                histogram.count = whole.count // 2
            parts.append(half)
        return parts[0], parts[1]

    def _histograms(self) -> list[BlockedHistogram]:
        optional = [histogram for histogram in (self.plane, self.tica) if histogram is not None]
        return [*self.pairs, *optional, *self.marginals, self.energy]


def codes_of(observables: Observables, coordinates: np.ndarray) -> np.ndarray:
    """Code of the basin of each sample."""
    if not observables.backbone:
        return sector_codes(coordinates[:, list(observables.rotamers)].astype(np.float64))
    columns = [[pair.first, pair.second] for pair in observables.pairs]
    return basin_codes(coordinates[:, columns].astype(np.float64))


def name_of(observables: Observables, code: int) -> str:
    """Name of a basin."""
    if not observables.backbone:
        return sector_name(code, torsions=len(observables.rotamers))
    return basin_name(code, residues=len(observables.pairs))
