"""Choose the number of intermediate densities: the one with the most effective samples per second of a pilot."""

import time
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import torch

from boltzport.analysis.metrics import LARGEST_K, smooth
from boltzport.core.progress import Progress, silent
from boltzport.core.weights import effective_fraction
from boltzport.ensembles.anneal import annealed, check_densities, path_density
from boltzport.ensembles.stream import Source, weighted
from boltzport.ensembles.survey import POPULATION, Course, survey
from boltzport.flows import Flow
from boltzport.targets import CountedTarget

LADDER = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Numbers of densities that are tried, in this order."""
GOOD = 0.3
"""Effective fraction of the flow above which it is not annealed: one density costs at least five times as much."""
FEWEST = 20
"""Number of effective pilot samples below which their number itself cannot be trusted."""

ENOUGH = 4.0
"""Number of densities, in units of the squared length of the path, beyond which log-weights hardly vary."""


class Trial(NamedTuple):
    """Pilot samples with one number of densities.

    Attributes:
        densities: Number of intermediate densities.
        ess: Effective sample size as a fraction.
        trusted: Whether the weights justify this fraction: enough effective samples, and a light tail.
        seconds: Processor time per sample.
        evaluations: Target evaluations per sample.
    """

    densities: int
    ess: float
    trusted: bool
    seconds: float
    evaluations: float

    @property
    def rate(self) -> float:
        """Effective samples per second."""
        return self.ess / self.seconds


class Choice(NamedTuple):
    """The chosen number of densities, and the trials that led to it."""

    densities: int
    trials: tuple[Trial, ...]

    @property
    def message(self) -> str:
        """The choice in one line."""
        found = ", ".join(f"{trial.densities}: ESS {trial.ess:.1%}, {trial.rate:.0f}/s" for trial in self.trials)
        return f"anneal: {self.densities} densities, from pilot runs ({found})"


class Annealing(NamedTuple):
    """How draws are annealed.

    Attributes:
        source: Draws annealed samples; None if they are not annealed.
        notes: Notes for the user, one line each.
    """

    source: Source | None
    notes: tuple[str, ...] = ()


def annealed_source(
    flow: Flow,
    target: CountedTarget,
    anneal: int | str,
    *,
    generator: torch.Generator,
    pilot: torch.Generator,
    progress: Progress = silent,
) -> Annealing:
    """A source of annealed samples; with `auto`, the same samples as with the number that is chosen.

    Args:
        flow: The flow.
        target: The target.
        anneal: Number of intermediate densities, or `auto`.
        generator: Random generator of the samples.
        pilot: Random generator of the pilot runs.
        progress: Progress callback of the pilot runs.

    Raises:
        InputError: It is neither a number nor `auto`, or the energy has no forces.
    """
    densities = check_densities(anneal)
    if densities == 0:
        return Annealing(None)
    path_density(flow, target)
    start = pilot.get_state()
    trials = torch.Generator(pilot.device).manual_seed(pilot.initial_seed() + 1)

    @cache
    def course() -> Course:
        pilot.set_state(start)
        return survey(flow, target, generator=pilot, progress=progress)

    notes: tuple[str, ...] = ()
    if densities is None:
        choice = choose(flow, target, course, generator=trials, progress=progress)
        densities, notes = choice.densities, (choice.message,)
    if densities == 0:
        return Annealing(None, notes)
    plan = course().plan(densities)
    return Annealing(lambda n: annealed(flow, target, n, plan, generator=generator), notes)


def choose(
    flow: Flow,
    target: CountedTarget,
    course: Callable[[], Course],
    *,
    generator: torch.Generator,
    population: int = POPULATION,
    clock: Callable[[], float] = time.process_time,
    progress: Progress = silent,
) -> Choice:
    """Try increasing numbers of densities until more of them cannot win.

    A trial with few effective samples, or with a heavy tail of weights, loses to any that has neither: its effective
    fraction is an overestimate.

    Args:
        flow: The flow.
        target: The target; its ledger counts the energies and forces.
        course: Surveys the path; not called if the flow is good.
        generator: Random generator, on the device of the flow.
        population: Number of samples of each trial.
        clock: Returns seconds.
        progress: Progress callback.
    """

    def attempt(densities: int, surveyed: Course | None) -> Trial:
        before, start = target.ledger.total, clock()
        if surveyed is None:
            drawn = [part for part, _ in weighted(flow, target, population, generator=generator, batch=population)]
        else:
            drawn = list(annealed(flow, target, population, surveyed.plan(densities), generator=generator))
        seconds = max(clock() - start, 1e-9) / population
        log_weights = np.concatenate([part.numbers.log_weights for part in drawn])
        return _trial(densities, log_weights, seconds, (target.ledger.total - before) / population)

    # The first call compiles.
    list(weighted(flow, target, 16, generator=generator, batch=16))
    trials = [attempt(0, None)]
    if trials[0].trusted and trials[0].ess >= GOOD:
        return Choice(0, tuple(trials))
    surveyed = course()
    for number, densities in enumerate(LADDER[1:], 1):
        best = _best(trials)
        if number > 1 and best.trusted and best.rate * _predicted(trials, densities) >= 1.0:
            break
        if number > 1 and densities > ENOUGH * surveyed.length**2:
            break
        progress("trials", number, len(LADDER) - 1)
        trials.append(attempt(densities, surveyed))
    progress("trials", len(LADDER) - 1, len(LADDER) - 1)
    return Choice(_best(trials).densities, tuple(trials))


def _trial(densities: int, log_weights: np.ndarray, seconds: float, evaluations: float) -> Trial:
    if not np.isfinite(log_weights).any():
        return Trial(densities, ess=0.0, trusted=False, seconds=seconds, evaluations=evaluations)
    ess = effective_fraction(torch.from_numpy(log_weights))
    pareto_k = smooth(log_weights).pareto_k
    trusted = ess * len(log_weights) >= FEWEST and (pareto_k is None or pareto_k <= LARGEST_K)
    return Trial(densities, ess, trusted, seconds, evaluations)


def _best(trials: list[Trial]) -> Trial:
    """The trial with the highest rate among those that can be trusted; if there is none, the largest fraction."""
    trusted = [trial for trial in trials if trial.trusted]
    return max(trusted, key=lambda trial: trial.rate) if trusted else max(trials, key=lambda trial: trial.ess)


def _predicted(trials: list[Trial], densities: int) -> float:
    """Seconds per sample with more densities: each costs as much as those before it."""
    first, last = trials[0], trials[-1]
    return first.seconds + (last.seconds - first.seconds) * densities / last.densities
