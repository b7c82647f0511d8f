"""Markov chains at the density of a step, which give unweighted samples of it.

Samples of a flow are weighted, and where the flow is poor a fit sees only a few heavy ones. Chains start at samples
resampled by weight and follow Hamiltonian dynamics at the density of the step: a heavy point becomes many points around
it, and the stiff coordinates forget the flow that drew them. Chains move within modes. The flow carries them between
modes: its samples replace them (resampling) or are proposed to them (independence Metropolis).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.core.weights import normalised
from boltzport.mcmc import Parts, follow_acceptance, hmc, plain
from boltzport.training.base import Checkpoint, Progress

CHUNK = 2048
"""Number of chains that move at once."""
WANTED = 0.8
"""Target acceptance rate of the trajectories, which sets the step size."""
FIRST_STEP = 0.15
"""Initial leapfrog step size, in units of the coordinates' widths."""
HEAVIEST = 50.0
"""Upper bound of the resampling weights, in units of their mean; larger weights are clipped."""
NORMAL_MEDIAN = 0.6745
"""Median absolute deviation of a standard normal variable."""

LogDensity = Callable[[Tensor], Tensor]
"""Maps points to their log density up to a constant; differentiable, with respect to the coordinates."""


class ChainPoints(NamedTuple):
    """Positions of the chains, and the gradient of their log density there."""

    coordinates: Float[Tensor, "chains dimensions"]
    slope: Float[Tensor, "chains dimensions"]


class Chains:
    """A population of Markov chains.

    Args:
        count: Number of chains, on all ranks together.
        leapfrogs: Mean number of leapfrog steps per trajectory.
        widest: Largest width assumed for each coordinate, beyond which its curvature is not taken as constant.
    """

    def __init__(self, count: int, *, leapfrogs: int, widest: Float[Tensor, " dimensions"]) -> None:
        self._count, self._leapfrogs, self._widest = ranks().share(count), leapfrogs, widest
        self._step_size = torch.tensor([FIRST_STEP], dtype=torch.float64, device=widest.device)
        self._coordinates = self._slope = widest.new_empty(0, len(widest))
        self._log_density = widest.new_empty(0, dtype=torch.float64)

    @property
    def size(self) -> int:
        """Number of chains; 0 before `gather`."""
        return len(self._coordinates)

    @property
    def points(self) -> ChainPoints:
        """Current points of the chains."""
        return ChainPoints(self._coordinates, self._slope)

    def gather(
        self,
        coordinates: Float[Tensor, "points dimensions"],
        log_weights: Float[Tensor, " points"],
        log_density: LogDensity,
        *,
        generator: torch.Generator,
    ) -> None:
        """Restart the chains at points resampled by their weights."""
        weights = (normalised(log_weights) * len(log_weights)).clamp_max(HEAVIEST)
        places = torch.multinomial(weights, self._count, replacement=True, generator=generator)
        self._put(torch.arange(self._count, device=coordinates.device), coordinates[places].clone(), log_density)

    @torch.no_grad()
    def propose(
        self,
        coordinates: Float[Tensor, "points dimensions"],
        log_weights: Float[Tensor, " points"],
        log_q: Callable[[Tensor], Tensor],
        log_density: LogDensity,
        *,
        generator: torch.Generator,
    ) -> float:
        """Propose one sample of a flow to each chain; return the mean acceptance rate.

        Args:
            coordinates: Samples of the flow.
            log_weights: Log ratio of the chains' density to the flow's there, with the constant of `log_density`.
            log_q: Log density of the flow.
            log_density: Log density of the chains.
            generator: Random generator for the acceptances.
        """
        count = min(self.size, len(coordinates))
        who = torch.randperm(self.size, generator=generator, device=generator.device)[:count]
        present = self._log_density[who] - log_q(self._coordinates[who]).double()
        # Where the flow has no density (present is infinite) a chain stays: the reverse move is impossible.
        acceptance = (log_weights[:count] - present).nan_to_num(nan=-math.inf).clamp(max=0.0).exp()
        accepted = torch.rand(count, dtype=torch.float64, generator=generator, device=generator.device) < acceptance
        self._put(who[accepted], coordinates[:count][accepted], log_density)
        return float(acceptance.mean())

    def move(self, log_density: LogDensity, *, generator: torch.Generator, progress: Progress) -> float:
        """Run one trajectory per chain, with a Metropolis test; return the mean acceptance rate."""
        density, scales = plain(log_density), self._scales()
        # The same on all ranks, so that none waits for another.
        leapfrogs = ranks().agreed(hmc.draw_leapfrogs(self._leapfrogs, generator))
        accepted = 0.0
        for places in torch.split(torch.arange(self.size, device=self._coordinates.device), CHUNK):
            progress("chains", int(places[0]), self.size)
            state, info = hmc.step(
                self._state(places),
                generator,
                density=density,
                scales=scales,
                step_size=float(self._step_size),
                leapfrogs=leapfrogs,
            )
            self._coordinates[places], self._slope[places] = state.coordinates, state.parts.p_gradient
            self._log_density[places] = state.parts.log_p
            accepted += float(info.acceptance.sum())
        progress("chains", self.size, self.size)
        acceptance = ranks().mean(accepted / self.size)
        self._step_size = follow_acceptance(
            self._step_size, torch.full_like(self._step_size, acceptance), wanted=WANTED
        )
        return acceptance

    def save(self) -> Checkpoint:
        """Return the positions of the chains and the adapted parameters of the trajectories."""
        return {
            "coordinates": self._coordinates.clone(),
            "slope": self._slope.clone(),
            "log_density": self._log_density.clone(),
            "step_size": self._step_size.clone(),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self._coordinates, self._slope = checkpoint["coordinates"].clone(), checkpoint["slope"].clone()
        self._log_density, self._step_size = checkpoint["log_density"].clone(), checkpoint["step_size"].clone()

    def _put(self, places: Tensor, coordinates: Tensor, log_density: LogDensity) -> None:
        """Set the positions of some chains."""
        if len(places) == self._count and self.size != self._count:
            self._coordinates, self._slope = torch.empty_like(coordinates), torch.empty_like(coordinates)
            self._log_density = coordinates.new_empty(len(places), dtype=torch.float64)
        density = plain(log_density)
        for chosen, points in zip(torch.split(places, CHUNK), torch.split(coordinates, CHUNK), strict=True):
            parts = density.parts(points)
            self._coordinates[chosen], self._slope[chosen] = points, parts.p_gradient.nan_to_num(0.0)
            self._log_density[chosen] = parts.log_p.nan_to_num(nan=-math.inf)

    def _state(self, places: Tensor) -> hmc.State:
        slope, log_density = self._slope[places], self._log_density[places]
        parts = Parts(torch.zeros_like(log_density), log_density, torch.zeros_like(slope), slope)
        return hmc.State(self._coordinates[places], parts)

    def _scales(self) -> Float[Tensor, "1 dimensions"]:
        """Widths of the coordinates: the gradient of a normal log density has the inverse of its width."""
        slope = self._slope.abs().median(0).values / NORMAL_MEDIAN
        return torch.minimum(1.0 / slope.clamp_min(1e-30), self._widest.to(slope))[None]
