"""Figures of a model: what its weights, its histograms and a reference say of it, with intervals.

Nothing here knows of molecules or flows; samples come as arrays, in batches where there are many.
"""

from boltzport.metrics.basins import (
    Agreement,
    Basin,
    BasinSums,
    Representatives,
    agreement,
    basin_codes,
    describe_basin,
    most_populated,
)
from boltzport.metrics.bootstrap import BLOCKS, Draws, Interval, chain_blocks, draw_blocks, interval, sample_blocks
from boltzport.metrics.histogram import BlockedHistogram, Grid, forward_kl, total_variation
from boltzport.metrics.importance import (
    LARGEST_K,
    Bounds,
    Importance,
    Mean,
    bounds,
    clip_count,
    clip_largest,
    importance,
    log_mean_exp,
    weighted_mean,
)
from boltzport.metrics.missing import Covering, LogZ, MissingMass, cover, missing_mass, rounded_down
from boltzport.metrics.profiles import first_axis, free_energy, profile_deviation, profile_error
from boltzport.metrics.ramachandran import Divergence, divergence, mean_divergence, torus_grid
from boltzport.metrics.stream import Batch, HoldOut, Reservoir
from boltzport.metrics.thermodynamics import State, states
from boltzport.metrics.tica import Skipped, Tica, fit_tica, tica_grid, torsion_features
from boltzport.metrics.wasserstein import (
    Distance,
    wasserstein_line,
    wasserstein_plane,
    wasserstein_torus,
    with_error,
)

__all__ = [
    "BLOCKS",
    "LARGEST_K",
    "Agreement",
    "Basin",
    "BasinSums",
    "Batch",
    "BlockedHistogram",
    "Bounds",
    "Covering",
    "Distance",
    "Divergence",
    "Draws",
    "Grid",
    "HoldOut",
    "Importance",
    "Interval",
    "LogZ",
    "Mean",
    "MissingMass",
    "Representatives",
    "Reservoir",
    "Skipped",
    "State",
    "Tica",
    "agreement",
    "basin_codes",
    "bounds",
    "chain_blocks",
    "clip_count",
    "clip_largest",
    "cover",
    "describe_basin",
    "divergence",
    "draw_blocks",
    "first_axis",
    "fit_tica",
    "forward_kl",
    "free_energy",
    "importance",
    "interval",
    "log_mean_exp",
    "mean_divergence",
    "missing_mass",
    "most_populated",
    "profile_deviation",
    "profile_error",
    "rounded_down",
    "sample_blocks",
    "states",
    "tica_grid",
    "torsion_features",
    "torus_grid",
    "total_variation",
    "wasserstein_line",
    "wasserstein_plane",
    "wasserstein_torus",
    "weighted_mean",
    "with_error",
]
