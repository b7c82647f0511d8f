"""Contenders of the race without a flow: HMC and OpenMM's Langevin dynamics, each with and without exchange."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from boltzport.bench.contenders import Streamed
from boltzport.bench.observed import Part, Torsions, Truth
from boltzport.bench.track import Budget, Cost, Track, Tracker
from boltzport.core.errors import RunError
from boltzport.core.interrupt import StopRequest
from boltzport.core.preset import Preset
from boltzport.core.progress import Progress
from boltzport.core.seeds import derived
from boltzport.energies import Energy
from boltzport.ensembles.reference import HmcSettings, RemdSettings, Sampler, sample_hmc, settings_for
from boltzport.ensembles.reference.frames import internal_coordinates
from boltzport.ensembles.reference.remd import Exchange, dynamics_of
from boltzport.ensembles.reference.replicas import Propagator, Replica
from boltzport.molecules import Molecule
from boltzport.targets import Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, CountedEnergy, informed_layout

ITERATIONS = 50_000
"""Largest number of trajectories of a chain."""
WARM_UP = 300
"""Number of warm-up trajectories of a chain."""
EQUILIBRATION = 2.0
"""Equilibration of dynamics in ps, and again with exchanges."""
LADDERS = 4
"""Number of ladders of a run; those of all runs are moved at once, which is several times faster."""
FRAMES = 10
"""Number of frames of dynamics that are observed at once."""


class HmcContender(NamedTuple):
    """HMC as `boltzport reference` does it: a run is some of its ladders, and all ladders run at once.

    Attributes:
        molecule: The molecule.
        energy: Its energy.
        torsions: The observed torsions.
        seed: Seed of the random generator.
        name: Its name.
        rungs: Number of temperatures; 1 for plain HMC, None to set it from the number of coordinates.
        training: Nothing.
        shared: Nothing.
    """

    molecule: Molecule
    energy: Energy
    torsions: Torsions
    seed: int
    name: str = "tempered HMC"
    rungs: int | None = None
    training: Cost = Cost(0.0, 0.0)
    shared: Cost = Cost(0.0, 0.0)

    def race(self, seeds: Sequence[int], budget: Budget, truth: Truth, *, progress: Progress) -> list[Track]:
        """One independent group of ladders for each seed."""
        runs, ledger, stop = len(seeds), Ledger(), StopRequest()
        ladders = LADDERS * runs
        start = time.process_time()
        ticks: list[Cost] = []

        def watch(stage: str, done: int, total: int) -> None:
            if stage != "sampling":
                progress(f"{self.name}, warm-up", done, total)
                return
            ticks.append(Cost(ledger.total / runs, (time.process_time() - start) / runs))
            spent = Cost(ticks[-1].evaluations - ticks[0].evaluations, ticks[-1].seconds - ticks[0].seconds)
            stop.asked = budget.part(spent) >= 1.0 and done > 0
            progress(self.name, round(100 * budget.part(spent)), 100)

        counted = CountedEnergy(self.energy, ledger)
        target = BoltzmannTarget(self.molecule, self.energy, informed_layout(self.molecule, counted))
        settings = HmcSettings(
            samples=ladders * ITERATIONS, ladders=ladders, iterations=ITERATIONS, warm_up=WARM_UP, rungs=self.rungs
        )
        # HmcContender HMC has the random numbers of before.
        stream = "tempered" if self.rungs is None else self.name
        generator = derived(self.seed, f"{stream} {seeds[0]}")
        sampled = sample_hmc(target, counted, generator, settings=settings, ledger=ledger, progress=watch, stop=stop)
        angles = sampled.coordinates[:, list(self.torsions.places)].reshape(ladders, -1, len(self.torsions.places))
        tracks = []
        for run in range(runs):
            tracker = Tracker(self.torsions, truth, chains=LADDERS)
            own = angles[run * LADDERS : (run + 1) * LADDERS].transpose(1, 0, 2)
            # The tick before an iteration has the cost of those before it.
            for frames, tick in zip(own, ticks[1:], strict=False):
                spent = Cost(tick.evaluations - ticks[0].evaluations, tick.seconds - ticks[0].seconds)
                tracker.add(Part(frames, None), spent)
            tracks.append(tracker.track(ticks[0]))
        return tracks


def langevin(molecule: Molecule, torsions: Torsions, *, seed: int) -> Streamed:
    """OpenMM's Langevin dynamics at the molecule's temperature."""
    settings = _settings(molecule)
    return _dynamics("Langevin", molecule, replace(settings, temperatures=settings.temperatures[:1]), torsions, seed)


def replica_exchange(molecule: Molecule, torsions: Torsions, *, seed: int) -> Streamed:
    """OpenMM's Langevin dynamics with replica exchange, at the paper's temperatures."""
    return _dynamics("replica exchange", molecule, _settings(molecule), torsions, seed)


def _settings(molecule: Molecule) -> RemdSettings:
    found = settings_for(molecule, Sampler.OPENMM, Preset.QUICK)
    assert isinstance(found, RemdSettings)
    return replace(found, equilibration=EQUILIBRATION, exchange_equilibration=EQUILIBRATION)


def _dynamics(name: str, molecule: Molecule, settings: RemdSettings, torsions: Torsions, seed: int) -> Streamed:
    steps, rungs, columns = 0, len(settings.temperatures), list(torsions.places)

    def open_(run: int) -> Iterator[Part]:
        random = np.random.default_rng(derived(seed, f"{name} {run}").initial_seed())
        seeds = random.integers(1, 2**31 - 1, size=rungs)
        replicas = [
            Replica(temperature, molecule.positions, int(number))
            for temperature, number in zip(settings.temperatures, seeds, strict=True)
        ]
        propagator = Propagator(dynamics_of(molecule, settings), replicas)
        exchange = Exchange(settings.temperatures, ladders=1, seed=int(random.integers(2**31)))
        changed: dict[int, float] = {}

        def cycle(cycles: int, *, exchanging: bool) -> np.ndarray:
            """Save intervals; the frames of the coldest replica after each of them."""
            nonlocal steps, changed
            frames = []
            for _ in range(cycles):
                cold = int(exchange.replica_at[0, 0])
                done = propagator.run(settings.cycle_steps, [cold], changed)
                if not np.isfinite(done.energies).all():
                    raise RunError(f"{name}: a replica blew up, its energy is not finite")
                steps += rungs * settings.cycle_steps
                swapped = exchange.attempt(done.energies) if exchanging and rungs > 1 else []
                changed = {replica: settings.temperatures[rung] for replica, rung in swapped}
                frames.append(done.positions[cold])
            return np.stack(frames)

        def parts() -> Iterator[Part]:
            while True:
                found = internal_coordinates(molecule, cycle(FRAMES, exchanging=True))
                yield Part(found[:, columns], None)

        cycle(max(1, settings.cycles(settings.equilibration)), exchanging=False)
        if rungs > 1:
            cycle(max(1, settings.cycles(settings.exchange_equilibration)), exchanging=True)
        return parts()

    return Streamed(name, torsions, open_, lambda: steps)
