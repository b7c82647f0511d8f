"""Contenders of the race that sample with a trained flow: reweighted, annealed, mixed, and in Markov chains."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from boltzport.bench.observed import Part, Torsions, Truth
from boltzport.bench.track import Budget, Cost, Track, Tracker
from boltzport.core.progress import Progress
from boltzport.core.seeds import derived
from boltzport.ensembles import annealed_source, open_chains
from boltzport.ensembles.numbers import Frames, to_numpy
from boltzport.ensembles.stream import weighted
from boltzport.experiments import Model
from boltzport.targets import CountedTarget
from boltzport.targets.boltzmann import BoltzmannTarget

ENDLESS = 10**12
"""Number of frames of a stream that its budget ends."""
BATCH = 4096
"""Number of samples of the flow that are drawn at once."""
CHAINS = 64
"""Number of Markov chains of a run."""


@runtime_checkable
class Contender(Protocol):
    """A sampler in the race."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def training(self) -> Cost:
        """Cost of the training that it needs; nothing without a flow."""

    @property
    def shared(self) -> Cost:
        """Cost of what all its runs have in common, such as a pilot run."""

    def race(self, seeds: Sequence[int], budget: Budget, truth: Truth, *, progress: Progress) -> list[Track]:
        """One independent run for each seed."""


class Streamed(NamedTuple):
    """A contender that yields its frames part by part.

    Attributes:
        name: Its name.
        torsions: The observed torsions.
        open: Prepares a run with a seed, and returns its frames; the preparation is its setup.
        evaluations: Returns the number of evaluations so far, of all runs.
        training: Cost of the training that it needs.
        shared: Cost of what all its runs have in common.
        chains: Number of chains of a run, if its frames have no weights.
    """

    name: str
    torsions: Torsions
    open: Callable[[int], Iterator[Part]]
    evaluations: Callable[[], int]
    training: Cost = Cost(0.0, 0.0)
    shared: Cost = Cost(0.0, 0.0)
    chains: int = 1

    def race(self, seeds: Sequence[int], budget: Budget, truth: Truth, *, progress: Progress) -> list[Track]:
        """One independent run for each seed."""
        tracks = []
        for number, seed in enumerate(seeds):
            tracker = Tracker(self.torsions, truth, chains=self.chains)
            before, start = self.evaluations(), time.process_time()
            parts = self.open(seed)
            setup = Cost(self.evaluations() - before, time.process_time() - start)
            before, seconds, done = self.evaluations(), 0.0, 0.0
            while done < 1.0:
                start = time.process_time()
                part = next(parts)
                seconds += time.process_time() - start
                spent = Cost(self.evaluations() - before, seconds)
                tracker.add(part, spent)
                done = budget.part(spent)
                progress(self.name, round(100 * (number + done)), 100 * len(seeds))
            tracks.append(tracker.track(setup))
        return tracks


def training_cost(model: Model) -> Cost:
    """What the training of a model cost; the seconds are those that its run directory records."""
    return Cost(float(model.ledger.cost), model.status.seconds)


def of_flow(model: Model, torsions: Torsions, *, name: str = "flow", seed: int) -> Streamed:
    """The flow with reweighted samples."""
    counted = _counted(model)

    def open_(run: int) -> Iterator[Part]:
        generator = derived(seed, f"{name} {run}")
        drawn = weighted(model.flow, counted, ENDLESS, generator=generator, batch=BATCH)
        return _parts((frames for frames, _ in drawn), counted, torsions)

    # The first call compiles.
    next(weighted(model.flow, counted, 16, generator=derived(seed, "compile"), batch=16))
    return Streamed(name, torsions, open_, lambda: counted.ledger.total, training_cost(model))


def of_annealing(
    model: Model, torsions: Torsions, anneal: int | str, *, seed: int, progress: Progress
) -> tuple[Streamed | None, str]:
    """Annealed samples of a flow, and a note on the number of densities; no contender if that is zero."""
    counted = _counted(model)
    before, start = counted.ledger.total, time.process_time()
    made = annealed_source(
        model.flow,
        counted,
        anneal,
        generator=(generator := derived(seed, "annealed")),
        pilot=derived(seed, "pilot"),
        progress=progress,
    )
    shared = Cost(counted.ledger.total - before, time.process_time() - start)
    note = made.notes[0] if made.notes else f"anneal: {anneal} densities"
    if made.source is None:
        return None, f"{note}; the annealed samples are those of the flow"
    source = made.source
    next(source(16))

    def open_(run: int) -> Iterator[Part]:
        generator.set_state(derived(seed, f"annealed {run}").get_state())
        return _parts(source(ENDLESS), counted, torsions)

    return Streamed("annealed", torsions, open_, lambda: counted.ledger.total, training_cost(model), shared), note


def of_chains(model: Model, torsions: Torsions, *, seed: int) -> Streamed:
    """Markov chains with proposals from the flow."""
    counted = _counted(model)

    def open_(run: int) -> Iterator[Part]:
        generator = derived(seed, f"chains {run}")
        frames = open_chains(model.flow, counted, ENDLESS, generator=generator, chains=CHAINS).frames
        return (part._replace(log_weights=None) for part in _parts(frames, counted, torsions))

    return Streamed("chains", torsions, open_, lambda: counted.ledger.total, training_cost(model), chains=CHAINS)


def _counted(model: Model) -> CountedTarget:
    return model.target.counted


def _parts(frames: Iterator[Frames], counted: CountedTarget, torsions: Torsions) -> Iterator[Part]:
    target = counted.target
    assert isinstance(target, BoltzmannTarget)
    columns = list(torsions.places)
    for found in frames:
        internal = target.internal(found.coordinates)[:, columns]
        yield Part(to_numpy(internal), found.numbers.log_weights)
