"""Markov chain kernels for a log density: HMC, parallel tempering, independence Metropolis, annealing."""

from boltzport.mcmc import ais, hmc, independence, tempering
from boltzport.mcmc.adaptation import DualAveraging, follow_acceptance, init_dual_averaging, update_dual_averaging
from boltzport.mcmc.density import (
    Combination,
    Density,
    Logs,
    Parts,
    combine,
    differentiate,
    log_density_of,
    plain,
    target,
)

__all__ = [
    "Combination",
    "Density",
    "DualAveraging",
    "Logs",
    "Parts",
    "ais",
    "combine",
    "differentiate",
    "follow_acceptance",
    "hmc",
    "independence",
    "init_dual_averaging",
    "log_density_of",
    "plain",
    "target",
    "tempering",
    "update_dual_averaging",
]
