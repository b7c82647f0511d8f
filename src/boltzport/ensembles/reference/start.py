"""Initial structures of chains: random free torsions, so that agreement between chains is meaningful."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.mcmc import Density, hmc
from boltzport.targets import CountedTarget, Ledger, Purpose
from boltzport.targets.boltzmann import INFORMED_MARGIN, BoltzmannTarget

FREE_SCALE = 0.6
"""Scale in radian of a freely rotating torsion: about half of a basin."""
DESCENT = 60
"""Number of descent steps that resolve initial clashes, in which every trajectory would diverge."""
CANDIDATES = 16
"""Number of random structures drawn for each chain, which starts from the one of lowest energy."""


def free_torsions(target: BoltzmannTarget) -> Bool[Tensor, " dimensions"]:
    """Mask of freely rotating coordinates: those with a uniform density in the layout."""
    return torch.tensor([not math.isfinite(axis.width) for axis in target.layout])


def harmonic_scales(target: BoltzmannTarget, beta: Float[Tensor, " rungs"]) -> Float[Tensor, "rungs dimensions"]:
    """Widths of the coordinates on each rung: harmonic ones grow with the square root of the temperature."""
    widths = [axis.width / INFORMED_MARGIN if math.isfinite(axis.width) else FREE_SCALE for axis in target.layout]
    growth = torch.where(free_torsions(target).to(beta.device), 1.0, beta[:, None].rsqrt())
    return torch.tensor(widths, dtype=torch.float64, device=beta.device) * growth


def dispersed_start(
    target: BoltzmannTarget, count: int, generator: torch.Generator, *, ledger: Ledger | None = None
) -> Float[Tensor, "count dimensions"]:
    """The reference structure with random free torsions; for each chain, the candidate of lowest energy."""
    device = generator.device
    map_, free, counted = target.molecule.coordinates, free_torsions(target).to(device), CountedTarget(target, ledger)
    reference = map_.to_internal(torch.from_numpy(target.molecule.positions).to(device)[None]).coordinates
    best = reference.expand(count, -1).clone()
    least = torch.full((count,), torch.inf, dtype=torch.float64, device=device)
    for _ in range(CANDIDATES):
        uniform = torch.rand(count, map_.dimension, dtype=torch.float64, generator=generator, device=device)
        turns = uniform * 2 * math.pi - math.pi
        candidate = torch.where(free, turns, reference)
        with torch.no_grad():
            energy = -counted.evaluate(candidate, Purpose.EVALUATION).log_p
        better = energy < least
        best, least = torch.where(better[:, None], candidate, best), torch.where(better, energy, least)
    return best


def descend(
    start: Float[Tensor, "count dimensions"], density: Density, scales: Float[Tensor, " dimensions"]
) -> Float[Tensor, "count dimensions"]:
    """Remove clashes: starts of high energy follow the gradient downhill, with steps that lower the energy.

    High means more than 1 kT per coordinate, twice the thermal energy, above the lowest start. The others are not
    moved, so that the starts remain dispersed.

    Args:
        start: Points inside the support.
        density: Density whose `log_p` is minus the reduced energy.
        scales: Widths of the coordinates.
    """
    points, parts = start, density.exact_parts(start)
    enough = ranks().gather(parts.log_p).nan_to_num(nan=-torch.inf).max() - start.shape[1]
    reach = torch.full_like(start[:, :1], 0.1)
    for _ in range(DESCENT):
        slope = scales * parts.p_gradient.nan_to_num()
        # In units of the widths, and never longer than the reach: the slope of a clash can be arbitrarily large.
        trial = points + reach * scales * slope / slope.norm(dim=1, keepdim=True).clamp_min(1.0)
        found = density.exact_parts(trial)
        lower = (found.log_p > parts.log_p) & (parts.log_p < enough)
        points, parts = hmc.choose(lower, hmc.State(trial, found), hmc.State(points, parts))
        reach = torch.where(lower[:, None], 1.5 * reach, 0.4 * reach)
    return points
