"""Where chains start: molecules with all free torsions at random, so that agreement between chains means something."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.boltzmann import INFORMED_MARGIN, BoltzmannTarget
from boltzport.mcmc import Density, hmc
from boltzport.targets import CountedTarget, Ledger, Purpose

FREE_SCALE = 0.6
"""Scale in radian of a torsion that turns freely: about half of a basin."""
DESCENT = 60
"""Steps of the descent that takes starts out of their clashes, in which every trajectory would diverge."""
CANDIDATES = 16
"""How many random structures are drawn for a chain: it starts from the one that clashes least."""


def free_torsions(target: BoltzmannTarget) -> Bool[Tensor, " dimensions"]:
    """Which coordinates turn freely: those that the layout gives a uniform density."""
    return torch.tensor([not math.isfinite(axis.width) for axis in target.layout])


def harmonic_scales(target: BoltzmannTarget, beta: Float[Tensor, " rungs"]) -> Float[Tensor, "rungs dimensions"]:
    """Widths of the coordinates on each rung: harmonic ones grow with the root of the temperature."""
    widths = [axis.width / INFORMED_MARGIN if math.isfinite(axis.width) else FREE_SCALE for axis in target.layout]
    growth = torch.where(free_torsions(target), 1.0, beta[:, None].rsqrt())
    return torch.tensor(widths, dtype=torch.float64) * growth


def dispersed_start(
    target: BoltzmannTarget, count: int, generator: torch.Generator, *, ledger: Ledger | None = None
) -> Float[Tensor, "count dimensions"]:
    """The reference structure with its free torsions at random; of some candidates each that with the least energy."""
    map_, free, counted = target.molecule.coordinates, free_torsions(target), CountedTarget(target, ledger)
    reference = map_.to_internal(torch.from_numpy(target.molecule.positions)[None]).coordinates
    best = reference.expand(count, -1).clone()
    least = torch.full((count,), torch.inf, dtype=torch.float64)
    for _ in range(CANDIDATES):
        turns = torch.rand(count, map_.dimension, dtype=torch.float64, generator=generator) * 2 * math.pi - math.pi
        candidate = torch.where(free, turns, reference)
        with torch.no_grad():
            energy = -counted.evaluate(candidate, Purpose.EVALUATION).log_p
        better = energy < least
        best, least = torch.where(better[:, None], candidate, best), torch.where(better, energy, least)
    return best


def descend(
    start: Float[Tensor, "count dimensions"], density: Density, scales: Float[Tensor, " dimensions"]
) -> Float[Tensor, "count dimensions"]:
    """Starts without clashes: those of high energy go down the gradient, each as far at a time as its energy falls.

    High is more than 1 kT for each coordinate, twice what heat will bring, above the lowest start; the others stay
    where they are, so that starts remain dispersed.

    Args:
        start: Points inside of the support.
        density: Its `log_p` is minus the reduced energy.
        scales: Widths of the coordinates.
    """
    points, parts = start, density.exact_parts(start)
    enough = parts.log_p.nan_to_num(nan=-torch.inf).max() - start.shape[1]
    reach = torch.full((len(start), 1), 0.1, dtype=start.dtype)
    for _ in range(DESCENT):
        slope = scales * parts.p_gradient.nan_to_num()
        # In units of the widths, and never longer than the reach: the slope of a clash has any length.
        trial = points + reach * scales * slope / slope.norm(dim=1, keepdim=True).clamp_min(1.0)
        found = density.exact_parts(trial)
        lower = (found.log_p > parts.log_p) & (parts.log_p < enough)
        points, parts = hmc.choose(lower, hmc.State(trial, found), hmc.State(points, parts))
        reach = torch.where(lower[:, None], 1.5 * reach, 0.4 * reach)
    return points
