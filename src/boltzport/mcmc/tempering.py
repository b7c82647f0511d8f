"""Parallel tempering: ladders of inverse temperatures that swap their neighbours, over HMC.

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
        chains: The chains of all rungs, rung after rung: chain c of rung k is row k * ladders + c.
        walkers: Which walker of its ladder is on each rung.
        heading: For each walker 1 if it was on the hottest rung since it was on the coldest, else 0.
        round_trips: How often each walker went from the coldest rung to the hottest and back.
        parity: Which pairs of rungs swap next: (0, 1), (2, 3), ... or (1, 2), (3, 4), ...
    """

    chains: hmc.State
    walkers: Int[Tensor, "rungs ladders"]
    heading: Int[Tensor, "rungs ladders"]
    round_trips: Int[Tensor, "rungs ladders"]
    parity: int


class Info(NamedTuple):
    """What came of a step.

    Attributes:
        hmc: Of the trajectories.
        swap_acceptance: Mean probability of a swap between rungs k and k + 1; NaN for those that did not try.
    """

    hmc: hmc.Info
    swap_acceptance: Float[Tensor, " pairs"]


def tempered(beta: Float[Tensor, " chains"]) -> Combination:
    """The combination in which each chain has its own inverse temperature."""
    return lambda log_base, log_p: log_base + beta * log_p


def init(coordinates: Float[Tensor, "rungs ladders dimensions"], density: Density) -> State:
    """Ladders at given points.

    Args:
        coordinates: A point for each rung of each ladder.
        density: Its `log_p` is tempered, its `log_base` is not.
    """
    rungs, ladders, dimensions = coordinates.shape
    walkers = torch.arange(rungs)[:, None].expand(rungs, ladders).clone()
    heading = torch.zeros_like(walkers)
    heading[-1] = 1
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
    """A trajectory of every chain, then swaps between neighbours, even and odd pairs in turn.

    Args:
        state: The ladders.
        generator: Draws momenta, acceptances and swaps.
        density: Its `log_p` is tempered, its `log_base` is not.
        beta: Inverse temperature of each rung, the coldest (the largest) first.
        scales: Widths of the coordinates on each rung.
        step_size: Of each rung, in units of the scales.
        leapfrogs: Steps of the trajectories.
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
    """Offer each second pair of neighbours a swap: min(1, exp((beta_i - beta_j) (log_p_j - log_p_i))).

    Returns:
        The ladders, and the mean probability of a swap of each pair, NaN for those that did not try.
    """
    rungs, ladders = state.walkers.shape
    log_p = state.chains.parts.log_p.reshape(rungs, ladders)
    acceptance = log_p.new_full((max(rungs - 1, 0),), torch.nan)
    source = torch.arange(rungs)[:, None].expand(rungs, ladders).clone()
    for low in range(state.parity, rungs - 1, 2):
        ratio = (beta[low] - beta[low + 1]) * (log_p[low + 1] - log_p[low])
        # NaN, where both are outside of the support, is no reason to swap.
        probability = ratio.nan_to_num(nan=-torch.inf).clamp(max=0.0).exp()
        uniform = torch.rand(ladders, dtype=log_p.dtype, device=log_p.device, generator=generator)
        taken = uniform < probability
        source[low] = torch.where(taken, low + 1, low)
        source[low + 1] = torch.where(taken, low, low + 1)
        acceptance[low] = probability.mean()
    walkers = state.walkers.gather(0, source)
    heading, round_trips = _count_trips(walkers, state.heading, state.round_trips)
    rows = (source * ladders + torch.arange(ladders)).reshape(-1)
    parts = Parts(*(part[rows] for part in state.chains.parts))
    chains = hmc.State(state.chains.coordinates[rows], parts)
    return State(chains, walkers, heading, round_trips, 1 - state.parity), acceptance


def without_trips(state: State) -> State:
    """The same ladders, with trips counted from here on: only the walkers on the hottest rung are on their way back."""
    column = torch.arange(state.walkers.shape[1])
    heading = torch.zeros_like(state.heading)
    heading[state.walkers[-1], column] = 1
    return state._replace(heading=heading, round_trips=torch.zeros_like(state.round_trips))


def _count_trips(walkers: Tensor, heading: Tensor, round_trips: Tensor) -> tuple[Tensor, Tensor]:
    heading, round_trips = heading.clone(), round_trips.clone()
    column = torch.arange(walkers.shape[1])
    cold, hot = walkers[0], walkers[-1]
    round_trips[cold, column] += heading[cold, column]
    heading[cold, column] = 0
    heading[hot, column] = 1
    return heading, round_trips
