"""The sampler `hmc`: parallel tempering with Hamiltonian Monte Carlo in internal coordinates, with our own energies.

It runs many ladders at once. The Metropolis rule makes it exact, without a time step error; constrained bonds are
constants. The ladders are independent: each gives one chain at the molecule's temperature. They start from dispersed
structures, which are equilibrated at the highest temperature and then cooled. Half turns of amides are proposed. A
trained flow may propose moves to the chains of the coldest rung, which is also exact, and the fastest way between
modes. Ranks divide the ladders and share their step sizes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.interrupt import StopRequest
from boltzport.core.parallel import ranks
from boltzport.core.progress import Progress, silent
from boltzport.ensembles.reference.among import by_chain, mean_of_ladders, mean_of_ranks, own_ladders, stop_asked
from boltzport.ensembles.reference.density import Support, boltzmann_density, support_of
from boltzport.ensembles.reference.flips import OFTEN, flip
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.ensembles.reference.start import descend, dispersed_start, harmonic_scales
from boltzport.ensembles.reference.symmetry import cycle_randomly, methyl_cycles
from boltzport.mcmc import (
    Density,
    DualAveraging,
    Parts,
    hmc,
    independence,
    init_dual_averaging,
    tempering,
    update_dual_averaging,
)
from boltzport.targets import Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, flat_rotors

SPACING = 1.2
"""Spacing of the rungs in units of the energy's fluctuation; neighbours then swap in about a third of attempts."""
FIRST_STEP = 0.1
"""Initial step size, in units of the scales."""
HOT, COOLED = 0.3, 0.6
"""Fractions of the warm-up after which cooling begins, and after which every rung has its own temperature."""


@dataclass(frozen=True, kw_only=True)
class HmcSettings:
    """Settings of the sampler `hmc`.

    Attributes:
        samples: Number of frames to keep.
        ladders: Number of independent ladders, each with one chain at the molecule's temperature.
        iterations: Number of production trajectories of each chain.
        warm_up: Number of warm-up trajectories, in which chains are hot, then cooled, and step sizes are adapted.
        leapfrogs: Mean number of leapfrog steps per trajectory.
        hottest: Temperature of the hottest rung as a multiple of the molecule's. At 2.5 times 300 K torsions rotate.
        rungs: Number of rungs; None to set it from the number of coordinates. A single one is plain HMC, whose warm-up
            alone is hot.
        acceptance: Target acceptance rate of trajectories.
    """

    samples: int = 200_000
    ladders: int = 64
    iterations: int = 12_500
    warm_up: int = 600
    leapfrogs: int = 6
    hottest: float = 2.5
    rungs: int | None = None
    acceptance: float = 0.75

    def __post_init__(self) -> None:
        least = {"samples": 1, "ladders": 2, "iterations": 8, "warm_up": 4, "leapfrogs": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise InputError(f"expected {name} of at least {bound}, got {getattr(self, name)}")
        if not 1.0 < self.hottest < math.inf:
            raise InputError(f"expected hottest above 1 (times the temperature), got {self.hottest}")
        if self.rungs is not None and self.rungs < 1:
            raise InputError(f"expected at least 1 rung, got {self.rungs}")
        if not 0.0 < self.acceptance < 1.0:
            raise InputError(f"expected an acceptance between 0 and 1, got {self.acceptance}")
        most = self.ladders * self.iterations
        if self.samples > most:
            raise InputError(
                f"expected at most ladders * iterations = {most} samples, got {self.samples}; ask for more iterations"
            )

    def inverse_temperatures(self, dimension: int) -> Float[Tensor, " rungs"]:
        """Inverse temperatures in units of the coldest: a geometric ladder."""
        # The reduced energy of d harmonic coordinates fluctuates by sqrt(d / 2).
        reach = math.log(self.hottest) * math.sqrt(dimension / 2)
        rungs = self.rungs or 1 + max(1, math.ceil(reach / SPACING))
        return torch.logspace(0.0, -math.log10(self.hottest), rungs, dtype=torch.float64)


class _Records(NamedTuple):
    """Frames of the coldest rung, in time order: (ladders, ...) each."""

    coordinates: list[Tensor]
    positions: list[Tensor]
    reduced_energy: list[Tensor]


def sample_hmc(
    target: BoltzmannTarget,
    energy: Callable[[Tensor], Tensor],
    generator: torch.Generator,
    *,
    settings: HmcSettings,
    proposal: independence.Proposal | None = None,
    ledger: Ledger | None = None,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> Sampled:
    """Sample a molecule's Boltzmann density, each rank with its share of the ladders; rank 0 returns the frames of all.

    Args:
        target: The molecule with an informed layout, whose widths are the scales of trajectories.
        energy: Maps positions in nm to energies in kJ/mol; used to find equivalent hydrogens.
        generator: Random generator; the chains are on its device.
        settings: Settings of the sampler.
        proposal: Proposal for the chains of the coldest rung after each trajectory, in internal coordinates.
        ledger: Ledger that counts the evaluations, and already has those of the layout; a new one by default.
        progress: Progress callback.
        stop: Stop request, checked between trajectories.

    Raises:
        InputError: There are more ranks than ladders.
        RunError: The sampler was stopped before the first frame.
    """
    stop = stop or StopRequest()
    device = generator.device
    support = support_of(target.molecule).to(device)
    ledger = Ledger() if ledger is None else ledger
    density = boltzmann_density(target, support, ledger=ledger)
    beta = settings.inverse_temperatures(target.molecule.coordinates.dimension).to(device)
    rungs, ladders = len(beta), own_ladders(settings.ladders)
    hot = beta[-1] if rungs > 1 else beta / settings.hottest
    flat = torch.tensor(flat_rotors(target.molecule), dtype=torch.long, device=device)
    start = dispersed_start(target, rungs * ladders, generator, ledger=ledger)
    start = descend(start, density, harmonic_scales(target, beta)[0])
    state = tempering.init(start.reshape(rungs, ladders, -1), density)
    steps = init_dual_averaging(torch.full((rungs,), FIRST_STEP, dtype=torch.float64, device=device))

    def advance(state: tempering.State, step_size: Tensor, beta: Tensor) -> tuple[tempering.State, tempering.Info]:
        state, info = tempering.step(
            state,
            generator,
            density=density,
            beta=beta,
            scales=harmonic_scales(target, beta),
            step_size=step_size,
            # Trajectories of equal length, so that no rank waits for another.
            leapfrogs=ranks().agreed(hmc.draw_leapfrogs(settings.leapfrogs, generator)),
        )
        return _wrapped(state, support), info

    def turn_amides(state: tempering.State, iteration: int, beta: Tensor) -> tuple[tempering.State, Tensor | None]:
        if not len(flat) or iteration % OFTEN:
            return state, None
        found = flip(state.chains, flat, generator, density=density, beta=beta.repeat_interleave(ladders))
        # In the order of the ladder, the coldest rung first.
        turned = found.acceptance.reshape(rungs, ladders).mean(1)
        return _wrapped(state._replace(chains=found.chains), support), turned

    for iteration in range(settings.warm_up):
        progress("warm-up", iteration, settings.warm_up)
        if stop_asked(stop):
            raise RunError("interrupted during the warm-up: there is nothing to write yet")
        # Equilibrated hot, then cooled: a chain that is cold from the start keeps its initial strain.
        cooled = min(max((iteration / settings.warm_up - HOT) / (COOLED - HOT), 0.0), 1.0)
        now = beta**cooled * hot ** (1.0 - cooled)
        state, info = advance(state, steps.log_step.exp(), now)
        state, _ = turn_amides(state, iteration, now)
        steps = _adapted(steps, info, rungs, settings.acceptance)
    progress("warm-up", settings.warm_up, settings.warm_up)

    state = tempering.without_trips(state)
    step_size, triples = steps.log_average.exp(), methyl_cycles(target.molecule, energy)
    keep = set(_kept(settings))
    records, swaps, diverged, accepted = _Records([], [], []), [], 0, []
    taken: list[Tensor] = []
    flips: list[Tensor] = []
    stopped = False
    for iteration in range(settings.iterations):
        progress("sampling", iteration, settings.iterations)
        stopped = stop_asked(stop)
        if stopped:
            break
        state, info = advance(state, step_size, beta)
        state, turned = turn_amides(state, iteration, beta)
        flips += [] if turned is None else [turned]
        if proposal is not None:
            state, found = _propose(state, density, proposal, generator)
            taken.append(found.acceptance.mean()[None])
        swaps.append(info.swap_acceptance)
        accepted.append(info.hmc.acceptance.reshape(rungs, ladders).mean(1))
        diverged += int(info.hmc.diverged.sum())
        if iteration in keep:
            _record(records, state, target, support, triples, generator)
    else:
        progress("sampling", settings.iterations, settings.iterations)
    if not records.positions:
        raise RunError("interrupted before the first frame: there is nothing to write yet")

    ledger.agree()
    energies = by_chain(records.reduced_energy)
    trips, diverged = (round(value) for value in ranks().total([int(state.round_trips.sum()), diverged]))

    def overall(means: list[Tensor]) -> list[float]:
        return mean_of_ranks(torch.stack(means).mean(0), ladders).tolist()

    # A pair without an attempt before an interrupt has no rate yet.
    rates = mean_of_ranks(torch.stack(swaps).nanmean(0).nan_to_num(), ladders)
    return Sampled(
        positions=by_chain(records.positions),
        coordinates=by_chain(records.coordinates),
        reduced_energy=energies,
        chain=np.arange(len(energies)) // len(records.positions),
        interrupted=stopped,
        swap_rates=rates.tolist(),
        round_trips=trips,
        details={
            "temperatures": (target.molecule.temperature / beta).tolist(),
            "step_sizes": step_size.tolist(),
            "acceptance": overall(accepted),
            "diverged": diverged,
            **({"amides_turned": overall(flips)} if flips else {}),
            **({"proposals_accepted": overall(taken)[0]} if taken else {}),
            "evaluations": ledger.total,
            "force_evaluations": ledger.gradients,
        },
    )


def _kept(settings: HmcSettings) -> list[int]:
    """Iterations whose frames are kept: evenly spaced, the last one among them."""
    count = math.ceil(settings.samples / settings.ladders)
    return [((number + 1) * settings.iterations) // count - 1 for number in range(count)]


def _adapted(steps: DualAveraging, info: tempering.Info, rungs: int, wanted: float) -> DualAveraging:
    return update_dual_averaging(steps, mean_of_ladders(info.hmc.acceptance.reshape(rungs, -1)), wanted=wanted)


def _propose(
    state: tempering.State, density: Density, proposal: independence.Proposal, generator: torch.Generator
) -> tuple[tempering.State, independence.Info]:
    """Propose a point to every chain of the coldest rung."""
    ladders = state.walkers.shape[1]
    cold = _rows(state.chains, slice(0, ladders))
    moved, info = independence.step(cold, generator, density=density, proposal=proposal)
    hotter = _rows(state.chains, slice(ladders, None))
    parts = Parts(*(torch.cat(pair) for pair in zip(moved.parts, hotter.parts, strict=True)))
    chains = hmc.State(torch.cat([moved.coordinates, hotter.coordinates]), parts)
    return state._replace(chains=chains), info


def _rows(state: hmc.State, rows: slice) -> hmc.State:
    return hmc.State(state.coordinates[rows], Parts(*(part[rows] for part in state.parts)))


def _wrapped(state: tempering.State, support: Support) -> tempering.State:
    chains = state.chains
    return state._replace(chains=chains._replace(coordinates=support.wrap(chains.coordinates)))


def _record(
    records: _Records,
    state: tempering.State,
    target: BoltzmannTarget,
    support: Support,
    triples: list[tuple[int, ...]],
    generator: torch.Generator,
) -> None:
    ladders = state.walkers.shape[1]
    map_ = target.molecule.coordinates
    positions = map_.to_cartesian(state.chains.coordinates[:ladders]).positions
    internal = map_.to_internal(cycle_randomly(positions, triples, generator)).coordinates
    records.coordinates.append(support.wrap(internal).float().cpu())
    records.positions.append(map_.to_cartesian(internal).positions.float().cpu())
    records.reduced_energy.append(-state.chains.parts.log_p[:ladders].cpu())
