"""Metrics of a model from its weights, its histograms and a reference, with confidence intervals.

Independent of molecules and flows: samples are arrays, in batches if there are many.
"""

from boltzport.analysis.metrics.basins import (
    ABOVE,
    MOST,
    Agreement,
    Basin,
    BasinSums,
    Representatives,
    agreement,
    basin_codes,
    basin_name,
    conformational_entropy,
    describe_basin,
    most_populated,
    sector_codes,
    sector_name,
)
from boltzport.analysis.metrics.bootstrap import (
    BLOCKS,
    Draws,
    Interval,
    chain_blocks,
    draw_blocks,
    interval,
    sample_blocks,
)
from boltzport.analysis.metrics.catalogue import METRICS, Metric, Style, metric, parts_of
from boltzport.analysis.metrics.chains import bulk_size, circular_bulk_size, circular_rhat, rhat, transitions
from boltzport.analysis.metrics.defence import DEFENCE, default_defence
from boltzport.analysis.metrics.difference import Origin, Side, difference
from boltzport.analysis.metrics.estimates import Estimate, estimate, symmetric
from boltzport.analysis.metrics.histogram import BlockedHistogram, Grid, forward_kl, total_variation
from boltzport.analysis.metrics.importance import (
    LARGEST_K,
    Bounds,
    Importance,
    Mean,
    bounds,
    clip_count,
    clip_largest,
    importance,
    log_mean_exp,
    smooth,
    weighted_mean,
)
from boltzport.analysis.metrics.mbar import Sampled, combined_states
from boltzport.analysis.metrics.missing import Covering, LogZ, MissingMass, cover, missing_mass, rounded_down
from boltzport.analysis.metrics.pairs import TorsionPair, informative_pairs
from boltzport.analysis.metrics.profiles import first_axis, free_energy, profile_deviation, profile_error
from boltzport.analysis.metrics.ramachandran import Divergence, divergence, mean_divergence, torus_grid
from boltzport.analysis.metrics.results import Results, plain
from boltzport.analysis.metrics.stream import Batch, HoldOut, Reservoir
from boltzport.analysis.metrics.table import UNKNOWN_MASS, results_table
from boltzport.analysis.metrics.thermodynamics import FACTORS, ThermodynamicState, states
from boltzport.analysis.metrics.tica import Skipped, Tica, fit_tica, tica_grid, torsion_features
from boltzport.analysis.metrics.verdicts import clipping_misleads, verdicts
from boltzport.analysis.metrics.wasserstein import (
    Distance,
    wasserstein_line,
    wasserstein_plane,
    wasserstein_torus,
    with_error,
)

__all__ = [
    "ABOVE",
    "BLOCKS",
    "DEFENCE",
    "FACTORS",
    "LARGEST_K",
    "METRICS",
    "MOST",
    "UNKNOWN_MASS",
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
    "Estimate",
    "Grid",
    "HoldOut",
    "Importance",
    "Interval",
    "LogZ",
    "Mean",
    "Metric",
    "MissingMass",
    "Origin",
    "Representatives",
    "Reservoir",
    "Results",
    "Sampled",
    "Side",
    "Skipped",
    "Style",
    "ThermodynamicState",
    "Tica",
    "TorsionPair",
    "agreement",
    "basin_codes",
    "basin_name",
    "bounds",
    "bulk_size",
    "chain_blocks",
    "circular_bulk_size",
    "circular_rhat",
    "clip_count",
    "clip_largest",
    "clipping_misleads",
    "combined_states",
    "conformational_entropy",
    "cover",
    "default_defence",
    "describe_basin",
    "difference",
    "divergence",
    "draw_blocks",
    "estimate",
    "first_axis",
    "fit_tica",
    "forward_kl",
    "free_energy",
    "importance",
    "informative_pairs",
    "interval",
    "log_mean_exp",
    "mean_divergence",
    "metric",
    "missing_mass",
    "most_populated",
    "parts_of",
    "plain",
    "profile_deviation",
    "profile_error",
    "results_table",
    "rhat",
    "rounded_down",
    "sample_blocks",
    "sector_codes",
    "sector_name",
    "smooth",
    "states",
    "symmetric",
    "tica_grid",
    "torsion_features",
    "torus_grid",
    "total_variation",
    "transitions",
    "verdicts",
    "wasserstein_line",
    "wasserstein_plane",
    "wasserstein_torus",
    "weighted_mean",
    "with_error",
]
