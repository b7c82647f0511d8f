"""Ramachandran histograms: pairs of backbone torsions on the torus, 100 x 100 bins."""

import math
from typing import NamedTuple

import numpy as np

from boltzport.analysis.metrics.bootstrap import Draws, Interval, interval
from boltzport.analysis.metrics.histogram import BlockedHistogram, Grid, forward_kl, total_variation

BINS = 100
"""Bins along each torsion, as in the paper."""


class Divergence(NamedTuple):
    """Divergence of a histogram from that of a reference.

    Attributes:
        kl: KL(reference || model); see `forward_kl` for the cost of an empty cell.
        tv: Total variation, 0 to 1.
        kl_interval: Confidence interval of kl.
        tv_interval: Confidence interval of tv.
        kl_replicates: Bootstrap replicates of kl, for means over several pairs.
        tv_replicates: Bootstrap replicates of tv.
        blocks: Number of blocks that the intervals are based on.
    """

    kl: float
    tv: float
    kl_interval: Interval | None
    tv_interval: Interval | None
    kl_replicates: np.ndarray
    tv_replicates: np.ndarray
    blocks: int


def torus_grid() -> Grid:
    """Grid of a Ramachandran histogram, -pi to pi along both torsions."""
    return Grid((-math.pi, -math.pi), (math.pi, math.pi), (BINS, BINS), (2 * math.pi, 2 * math.pi))


def divergence(reference: BlockedHistogram, model: BlockedHistogram, draws: Draws) -> Divergence:
    """Divergence of two histograms on the same grid, with intervals from the noise of both.

    Args:
        reference: Histogram of the reference, in blocks by chain.
        model: Histogram of the model, plain or weighted.
        draws: Bootstrap draws of the blocks.
    """
    area = model.grid.area
    truth, found = reference.probabilities(), model.probabilities()
    truths = reference.replicates(draws.reference)
    founds = model.replicates(draws.model)
    kl, tv = float(forward_kl(truth, found, area=area)), float(total_variation(truth, found))
    kls, tvs = forward_kl(truths, founds, area=area), total_variation(truths, founds)
    return _with_intervals(kl, tv, kls, tvs, draws.blocks)


def mean_divergence(pairs: list[Divergence]) -> Divergence:
    """Mean over several pairs of torsions that were compared with the same draws."""
    kls = np.mean([pair.kl_replicates for pair in pairs], axis=0)
    tvs = np.mean([pair.tv_replicates for pair in pairs], axis=0)
    kl, tv = float(np.mean([pair.kl for pair in pairs])), float(np.mean([pair.tv for pair in pairs]))
    blocks = min(pair.blocks for pair in pairs)
    return _with_intervals(kl, tv, kls, tvs, blocks)


def _with_intervals(kl: float, tv: float, kls: np.ndarray, tvs: np.ndarray, blocks: int) -> Divergence:
    return Divergence(
        kl=kl,
        tv=tv,
        kl_interval=interval(kl, kls, blocks=blocks, least=0.0),
        tv_interval=interval(tv, tvs, blocks=blocks, least=0.0),
        kl_replicates=kls,
        tv_replicates=tvs,
        blocks=blocks,
    )
