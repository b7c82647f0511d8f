"""Markov chains whose proposals come from a flow: unweighted frames of the target.

Trajectories of HMC move a chain within a mode; proposals of the flow, independent of the chain (Tierney 1994), carry
it between modes. Both are Metropolis-exact, so that the frames need no weights, however bad the flow is: a bad flow
only mixes slowly, which R-hat and the effective size between chains show.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.analysis.metrics import bulk_size, circular_bulk_size, circular_rhat, rhat
from boltzport.core.errors import InputError
from boltzport.core.progress import Progress, silent
from boltzport.ensembles.anneal import wrapped
from boltzport.ensembles.beside import torsion_columns
from boltzport.ensembles.numbers import Frames, Numbers, to_numpy
from boltzport.ensembles.resample import systematic_counts
from boltzport.ensembles.stream import Stream, weighted
from boltzport.ensembles.survey import LEAPFROGS, widths
from boltzport.flows import Flow
from boltzport.mcmc import (
    Density,
    Logs,
    combine,
    differentiate,
    hmc,
    independence,
    init_dual_averaging,
    update_dual_averaging,
)
from boltzport.mcmc import (
    target as whole,
)
from boltzport.targets import CountedTarget, Purpose
from boltzport.targets.boltzmann import BoltzmannTarget

MOST_CHAINS, FEWEST_CHAINS = 512, 4
LENGTH = 100
"""Number of frames of a chain from which on there are as many chains as possible."""
STARTS = 8
"""Number of draws for each chain, from which its start is resampled."""
WARM_UP = 60
"""Number of trajectories that adapt the step size and are not kept."""
WANTED = 0.75
"""Target acceptance rate of trajectories."""
FIRST_STEP = 0.2
"""Initial step size, in units of the scales."""
WATCHED = 32
"""Largest number of coordinates that are watched, if they have no names."""
ENERGY = "energy"


@dataclass(frozen=True, kw_only=True)
class ChainSummary:
    """How well chains mixed.

    Attributes:
        chains: Number of chains.
        draws: Number of frames of each.
        rhat: Largest R-hat of the energy and the named torsions; None if the chains are too short.
        effective: Smallest number of effectively independent frames of these; None if the chains are too short.
        slowest: Observable with the fewest effective frames.
        mixing_times: Autocorrelation time of each torsion and of the energy, in steps of a chain. Where R-hat is well
            above 1 they are lower bounds.
        proposals_accepted: Mean acceptance rate of the flow's proposals.
        acceptance: Mean acceptance rate of the trajectories.
    """

    chains: int
    draws: int
    rhat: float | None
    effective: float | None
    slowest: str
    mixing_times: Mapping[str, float]
    proposals_accepted: float
    acceptance: float

    @property
    def message(self) -> str:
        """The summary in one line."""
        rates = f"{self.proposals_accepted:.1%} of the proposals accepted"
        if self.rhat is None or self.effective is None:
            return f"{self.chains} chains, too short for R-hat; {rates}"
        time = f"{self.slowest} mixes slowest, in {self.mixing_times[self.slowest]:.2g} steps"
        sizes = f"R-hat {self.rhat:.3f}, {self.effective:.0f} effective frames; {time}"
        return f"{self.chains} chains of {self.draws}: {sizes}; {rates}"


class _Watch:
    """Observables of all frames so far, to judge the chains by."""

    def __init__(self, target: CountedTarget) -> None:
        self._molecular = target.target if isinstance(target.target, BoltzmannTarget) else None
        columns = torsion_columns(self._molecular.molecule if self._molecular else None)
        plain = {f"x{place}": place for place in range(min(len(target.layout), WATCHED))}
        self.columns = columns or plain
        self._values: list[np.ndarray] = []
        self._energies: list[np.ndarray] = []
        self.rates: list[tuple[float, float]] = []

    def add(self, coordinates: Tensor, energy: np.ndarray, *, proposals: float, trajectories: float) -> None:
        known = coordinates if self._molecular is None else self._molecular.internal(coordinates)
        self._values.append(to_numpy(known)[:, list(self.columns.values())].astype(np.float32))
        self._energies.append(energy)
        self.rates.append((proposals, trajectories))

    def summary(self) -> ChainSummary:
        energies = np.stack(self._energies)
        draws, chains = energies.shape
        found: dict[str, tuple[float, float]] = {}
        if draws >= 8:
            values = np.stack(self._values).astype(np.float64)
            angular = self._molecular is not None
            for place, name in enumerate(self.columns):
                each = values[:, :, place]
                found[name] = (
                    (circular_rhat(each), circular_bulk_size(each)) if angular else (rhat(each), bulk_size(each))
                )
            found[ENERGY] = (rhat(energies), bulk_size(energies))
        slowest = min(found, key=lambda name: found[name][1], default="")
        proposals, trajectories = np.mean(self.rates, axis=0)
        return ChainSummary(
            chains=chains,
            draws=draws,
            rhat=max((value for value, _ in found.values()), default=None),
            effective=found[slowest][1] if found else None,
            slowest=slowest,
            mixing_times={name: energies.size / size for name, (_, size) in found.items()},
            proposals_accepted=float(proposals),
            acceptance=float(trajectories),
        )


def open_chains(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    chains: int | None = None,
    progress: Progress = silent,
) -> Stream:
    """Open a stream of frames of Markov chains, one frame of each chain after the other.

    The weights of the stream are those of the draws that the chains start from; `draw` is the number of the chain.

    Args:
        flow: The flow, which proposes.
        target: The target; its ledger counts the energies and forces.
        n: Number of frames.
        generator: Random generator, on the device of the flow.
        chains: Number of chains; by default 512, and fewer for short ones.
        progress: Progress callback of the warm-up.

    Raises:
        InputError: The energy has no forces, or there are too few frames.
        RunError: No draw has a finite weight.
    """
    if not target.differentiable:
        raise InputError(f"chain: the energy of {target.target.name} has no forces, which trajectories need")
    if n < FEWEST_CHAINS:
        raise InputError(f"chain: expected at least {FEWEST_CHAINS} frames, got {n}")
    count = chains or min(MOST_CHAINS, max(FEWEST_CHAINS, n // LENGTH))
    density = _density(target)
    starts, log_weights = _starts(flow, target, count, generator)
    with torch.no_grad():
        state = hmc.init(starts, density)
        scales = widths(combine(state.parts, whole).gradient, flow)
    steps = init_dual_averaging(torch.tensor([FIRST_STEP], dtype=torch.float64))
    for number in range(WARM_UP):
        progress("warm-up", number, WARM_UP)
        state, accepted, _ = _step(state, generator, density, flow, scales, float(steps.log_step.exp()))
        steps = update_dual_averaging(steps, torch.tensor([accepted], dtype=torch.float64), wanted=WANTED)
    progress("warm-up", WARM_UP, WARM_UP)
    watch, step_size = _Watch(target), float(steps.log_average.exp())

    def frames(state: hmc.State) -> Iterator[Frames]:
        for start in range(0, n, count):
            state, accepted, taken = _step(state, generator, density, flow, scales, step_size)
            energy = to_numpy(-state.parts.log_p)
            watch.add(state.coordinates, energy, proposals=taken, trajectories=accepted)
            size = min(count, n - start)
            unknown = np.full(size, np.nan)
            yield Frames(state.coordinates[:size], Numbers(np.zeros(size), energy[:size], unknown, np.arange(size)))

    return Stream(frames(state), log_weights, summary=watch.summary)


def _density(target: CountedTarget) -> Density:
    def logs(points: Tensor) -> Logs:
        found = target.evaluate(points, Purpose.EVALUATION)
        return Logs(found.log_volume, found.log_p)

    return Density(parts=differentiate(logs))


def _starts(
    flow: Flow, target: CountedTarget, count: int, generator: torch.Generator
) -> tuple[Tensor, Float[np.ndarray, " draws"]]:
    """Draws resampled by their weights, one for each chain, and the log-weights of all draws."""
    size = STARTS * count
    ((drawn, _),) = weighted(flow, target, size, generator=generator, batch=size)
    log_weights = drawn.numbers.log_weights
    rows = np.repeat(np.arange(size), systematic_counts(log_weights, count, generator=generator))
    return drawn.coordinates[torch.from_numpy(rows).to(drawn.coordinates.device)], log_weights


def _step(
    state: hmc.State,
    generator: torch.Generator,
    density: Density,
    flow: Flow,
    scales: Tensor,
    step_size: float,
) -> tuple[hmc.State, float, float]:
    """One trajectory and one proposal of the flow for each chain; mean acceptance rates of both."""

    def draw(n: int, generator: torch.Generator) -> independence.Proposed:
        return independence.Proposed(*flow.sample_and_log_prob(n, generator=generator))

    with torch.no_grad():
        state, info = hmc.step(
            state,
            generator,
            density=density,
            scales=scales,
            step_size=step_size,
            leapfrogs=hmc.draw_leapfrogs(LEAPFROGS, generator),
        )
        state = state._replace(coordinates=wrapped(flow, state.coordinates))
        proposal = independence.Proposal(draw, flow.log_prob)
        state, proposed = independence.step(state, generator, density=density, proposal=proposal)
    rates = (float(info.acceptance.mean()), float(proposed.acceptance.mean()))
    assert all(math.isfinite(rate) for rate in rates)
    return state, *rates
