"""Parallel tempering: ladders of inverse temperatures with swaps between neighbours, on top of HMC.

The density of a rung is exp(log_base + beta log_p). For a molecule in internal coordinates the base is the volume of
the coordinates, which belongs to the measure and is not tempered: exp(-beta u) is the density over positions.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.mcmc import hmc
from boltzport.mcmc.density import Combination, Density, Parts


class State(NamedTuple):
    """Ladders of chains.

    Attributes:
        chains: Chains of all rungs, rung by rung: chain c of rung k is row k * ladders + c.
        walkers: Index of the walker on each rung of each ladder.
        heading: For each walker, 1 if it is on its way back from the hottest rung, 0 if it is on its way there from the
            coldest, -1 if it has not yet been on the coldest.
        round_trips: Number of round trips of each walker, from the coldest rung to the hottest and back.
        parity: Which pairs of rungs swap next: (0, 1), (2, 3), ... or (1, 2), (3, 4), ...
    """

    chains: hmc.State
    walkers: Int[Tensor, "rungs ladders"]
    heading: Int[Tensor, "rungs ladders"]
    round_trips: Int[Tensor, "rungs ladders"]
    parity: int


class Info(NamedTuple):
    """Result of a step.

    Attributes:
        hmc: Result of the HMC trajectories.
        swap_acceptance: Mean swap probability between rungs k and k + 1; NaN for pairs without an attempt.
    """

    hmc: hmc.Info
    swap_acceptance: Float[Tensor, " pairs"]


def tempered(beta: Float[Tensor, " chains"]) -> Combination:
    """Combination in which each chain has its own inverse temperature."""
    return lambda log_base, log_p: log_base + beta * log_p


def init(coordinates: Float[Tensor, "rungs ladders dimensions"], density: Density) -> State:
    """Start ladders at given points.

    Args:
        coordinates: Initial point of each rung of each ladder.
        density: Density whose `log_p` is tempered and whose `log_base` is not.
    """
    rungs, ladders, dimensions = coordinates.shape
    walkers = torch.arange(rungs, device=coordinates.device)[:, None].expand(rungs, ladders).clone()
    heading = torch.full_like(walkers, -1)
    heading[0] = 0
    chains = hmc.init(coordinates.reshape(rungs * ladders, dimensions), density)
    return State(chains, walkers, heading, torch.zeros_like(walkers), 0)


def step(
    state: State,
    generator: torch.Generator,
    *,
    density: Density,
    beta: Float[Tensor, " rungs"],
    scales: Float[Tensor, "rungs dimensions"],
    step_size: Float[Tensor, " rungs"],
    leapfrogs: int,
) -> tuple[State, Info]:
    """Run one trajectory per chain, then attempt swaps between neighbours, alternating even and odd pairs.

    Args:
        state: Current ladders.
        generator: Random generator for momenta, acceptances and swaps.
        density: Density whose `log_p` is tempered and whose `log_base` is not.
        beta: Inverse temperature of each rung, the coldest (the largest) first.
        scales: Widths of the coordinates on each rung.
        step_size: Step size of each rung, in units of the scales.
        leapfrogs: Number of leapfrog steps per trajectory.
    """
    ladders = state.walkers.shape[1]
    chains, info = hmc.step(
        state.chains,
        generator,
        density=density,
        scales=scales.repeat_interleave(ladders, 0),
        step_size=step_size.repeat_interleave(ladders),
        leapfrogs=leapfrogs,
        combination=tempered(beta.repeat_interleave(ladders)),
    )
    swapped, acceptance = swap(state._replace(chains=chains), generator, beta=beta)
    return swapped, Info(info, acceptance)


def swap(
    state: State, generator: torch.Generator, *, beta: Float[Tensor, " rungs"]
) -> tuple[State, Float[Tensor, " pairs"]]:
    """Attempt a swap of every second pair, with probability min(1, exp((beta_i - beta_j) (log_p_j - log_p_i))).

    Returns:
        The ladders, and the mean swap probability of each pair, NaN for pairs without an attempt.
    """
    rungs, ladders = state.walkers.shape
    log_p = state.chains.parts.log_p.reshape(rungs, ladders)
    acceptance = log_p.new_full((max(rungs - 1, 0),), torch.nan)
    device = log_p.device
    source = torch.arange(rungs, device=device)[:, None].expand(rungs, ladders).clone()
    for low in range(state.parity, rungs - 1, 2):
        ratio = (beta[low] - beta[low + 1]) * (log_p[low + 1] - log_p[low])
        # NaN, where both are outside the support, means no swap.
        probability = ratio.nan_to_num(nan=-torch.inf).clamp(max=0.0).exp()
        uniform = torch.rand(ladders, dtype=log_p.dtype, device=device, generator=generator)
        taken = uniform < probability
        source[low] = torch.where(taken, low + 1, low)
        source[low + 1] = torch.where(taken, low, low + 1)
        acceptance[low] = probability.mean()
    walkers = state.walkers.gather(0, source)
    heading, round_trips = _count_trips(walkers, state.heading, state.round_trips)
    rows = (source * ladders + torch.arange(ladders, device=device)).reshape(-1)
    parts = Parts(*(part[rows] for part in state.chains.parts))
    chains = hmc.State(state.chains.coordinates[rows], parts)
    return State(chains, walkers, heading, round_trips, 1 - state.parity), acceptance


def without_trips(state: State) -> State:
    """Return the ladders with reset trip counts: only walkers now on the coldest rung have begun a trip."""
    column = torch.arange(state.walkers.shape[1], device=state.walkers.device)
    heading = torch.full_like(state.heading, -1)
    heading[state.walkers[0], column] = 0
    return state._replace(heading=heading, round_trips=torch.zeros_like(state.round_trips))


def _count_trips(walkers: Tensor, heading: Tensor, round_trips: Tensor) -> tuple[Tensor, Tensor]:
    heading, round_trips = heading.clone(), round_trips.clone()
    if len(walkers) == 1:
        return heading, round_trips
    column = torch.arange(walkers.shape[1], device=walkers.device)
    cold, hot = walkers[0], walkers[-1]
    round_trips[cold, column] += heading[cold, column] == 1
    heading[cold, column] = 0
    heading[hot, column] = torch.where(heading[hot, column] < 0, -1, 1)
    return heading, round_trips
