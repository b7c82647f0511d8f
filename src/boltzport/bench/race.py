"""The race of trained flows against dynamics: independent samples per second and per evaluation, and errors."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from boltzport.analysis.metrics import circular_rhat
from boltzport.bench.contenders import Contender
from boltzport.bench.effective import effective_size, profile_errors
from boltzport.bench.observed import LEAST, Truth
from boltzport.bench.track import SHORTEST, Budget, Cost, Track, sequence_size
from boltzport.core.files import finite
from boltzport.core.progress import Progress

STUCK = 1.1
"""R-hat above which chains have not mixed."""
SWEEPS = 2
"""Number of turns of each contender, so that a busy time of the machine does not hit one of them alone."""


class Checkpoint(NamedTuple):
    """Errors of a contender after a part of its runs.

    Attributes:
        evaluations: Mean number of evaluations of a run until then, without its setup.
        seconds: Mean processor time of a run until then, without its setup.
        error: Mean over runs of the mean absolute error of the free energy profile in kT.
        spread: Standard deviation of that over runs.
    """

    evaluations: float
    seconds: float
    error: float
    spread: float


class Mixing(NamedTuple):
    """Autocorrelation time of the slowest torsion along a chain, from all runs together.

    Attributes:
        evaluations: Evaluations of the chain, or of its ladder, in this time.
        seconds: Processor time of the chain in it, beside the others of its run.
        rhat: R-hat of the chains of all runs. Above `STUCK` the time is a lower bound: chains stayed where they began.
    """

    evaluations: float
    seconds: float
    rhat: float


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Result of a contender.

    Attributes:
        name: Name of the contender.
        runs: Number of independent runs.
        frames: Mean number of frames of a run.
        run: Mean cost of a run, without setup and training.
        setup: Mean cost of what comes before the first frame of a run: pilots, warm-up, equilibration.
        training: Cost of the training of its flow.
        effective: Number of independent samples that a run is worth: the smaller of the next two.
        effective_error: Relative standard error of it.
        by_populations: The same from the populations of basins and wells.
        by_profile: The same from the bins of the profile along the slowest torsion.
        bias: Fraction of the mean squared error that all runs have in common.
        formula: Mean of the usual formula: of the weights, or of the correlated slowest torsion; None if runs are too
            short.
        mixing: Mixing time of a sampler without weights; None if its runs are too short.
        missed: Number of basins and wells that no run visited.
        curve: Errors along the runs.
    """

    name: str
    runs: int
    frames: float
    run: Cost
    setup: Cost
    training: Cost
    effective: float
    effective_error: float
    by_populations: float
    by_profile: float
    bias: float
    formula: float | None
    mixing: Mixing | None
    missed: int
    curve: tuple[Checkpoint, ...]

    @property
    def per_second(self) -> float:
        """Effective independent samples per second of processor time, without setup and training."""
        return self.effective / self.run.seconds

    @property
    def per_evaluation(self) -> float:
        """Effective independent samples per evaluation, without setup and training."""
        return self.effective / self.run.evaluations

    @property
    def stuck(self) -> bool:
        """Whether the mixing time is a lower bound: basins were missed, or chains do not agree."""
        return self.mixing is not None and (self.missed > 0 or not self.mixing.rhat < STUCK)

    @property
    def before(self) -> Cost:
        """Cost before the first frame, with the training."""
        return Cost(*(one + two for one, two in zip(self.setup, self.training, strict=True)))


class Payback(NamedTuple):
    """Number of effective samples after which a flow has cost less than another contender, with its training.

    Attributes:
        evaluations: By evaluations; None if never.
        seconds: By processor time; None if never.
    """

    evaluations: float | None
    seconds: float | None


@dataclass(frozen=True, kw_only=True)
class Race:
    """Result of a race.

    Attributes:
        system: Name of the system.
        seed: Seed of the user.
        threads: Number of threads of each contender.
        truth: The truth that errors refer to.
        truth_error: Mean absolute error of its own profile in kT.
        standings: Result of each contender.
        notes: Notes for the user, one line each.
    """

    system: str
    seed: int
    threads: int
    truth: Truth
    truth_error: float
    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()

    def payback(self, flow: Standing, other: Standing) -> Payback:
        """After how many effective samples a flow has paid for its training."""
        return Payback(
            break_even(flow.before.evaluations, flow.per_evaluation, other.before.evaluations, other.per_evaluation),
            break_even(flow.before.seconds, flow.per_second, other.before.seconds, other.per_second),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        flows = [standing for standing in self.standings if standing.training.evaluations]
        others = [standing for standing in self.standings if not standing.training.evaluations]
        record = {
            "system": self.system,
            "seed": self.seed,
            "threads": self.threads,
            "torsion": self.truth.torsion,
            "barrier": self.truth.barrier,
            "truth": {
                "source": self.truth.source,
                "samples": self.truth.samples,
                "profile": self.truth.profile.tolist(),
                "profile_error": self.truth_error,
                "populations": self.truth.populations.tolist(),
                "populations_error": np.sqrt(self.truth.populations_variance).tolist(),
            },
            "contenders": {standing.name: _record(standing) for standing in self.standings},
            "payback": {
                flow.name: {other.name: self.payback(flow, other)._asdict() for other in others} for flow in flows
            },
            "notes": list(self.notes),
        }
        found = finite(record)
        assert isinstance(found, dict)
        return found


def break_even(first: float, rate: float, other_first: float, other_rate: float) -> float | None:
    """Number of samples after which one sampler has cost less than another; None if never, 0 if at once.

    Args:
        first: Cost before the first sample.
        rate: Samples per unit of cost.
        other_first: The same of the other sampler.
        other_rate: The same of the other sampler.

    Example:
        >>> break_even(100.0, 10.0, 0.0, 1.0)
        111.11111111111111
        >>> break_even(100.0, 1.0, 0.0, 10.0) is None
        True
    """
    saved = (1.0 / other_rate if other_rate > 0 else math.inf) - (1.0 / rate if rate > 0 else math.inf)
    ahead = first - other_first
    if not saved > 0.0:
        return None
    return max(ahead / saved, 0.0)


def run_race(
    contenders: Sequence[Contender], truth: Truth, *, runs: int, budget: Budget, progress: Progress
) -> tuple[Standing, ...]:
    """Let contenders take turns, with independent runs of each.

    Args:
        contenders: The contenders.
        truth: The truth that errors refer to.
        runs: Number of independent runs of each, at least four.
        budget: Budget of each contender, which its runs share; the setup of a run is not in it.
        progress: Progress callback.
    """
    each = Budget(budget.seconds / runs, budget.evaluations / runs)
    turns = np.array_split(np.arange(runs), SWEEPS)
    tracks: dict[str, list[Track]] = {contender.name: [] for contender in contenders}
    for turn in turns:
        for contender in contenders:
            tracks[contender.name] += contender.race(turn.tolist(), each, truth, progress=progress)
    return tuple(_standing(contender, tracks[contender.name], truth) for contender in contenders)


def _standing(contender: Contender, tracks: Sequence[Track], truth: Truth) -> Standing:
    populations = np.stack([track.populations[-1] for track in tracks])
    profiles = np.stack([track.profile[-1] for track in tracks])
    counted = (truth.profile >= LEAST) & (truth.profile <= 1.0 - LEAST)
    by_populations = effective_size(populations, truth.populations, truth.populations_variance)
    by_profile = effective_size(profiles[:, counted], truth.profile[counted], truth.profile_variance[counted])
    least = min(by_populations, by_profile, key=lambda found: found.size)
    setups = [Cost(*(one + two for one, two in zip(contender.shared, track.setup, strict=True))) for track in tracks]
    formulas = [track.formula for track in tracks if math.isfinite(track.formula)]
    return Standing(
        name=contender.name,
        runs=len(tracks),
        frames=float(np.mean([track.frames for track in tracks])),
        run=_mean([Cost(float(track.evaluations[-1]), float(track.seconds[-1])) for track in tracks]),
        setup=_mean(setups),
        training=contender.training,
        effective=least.size,
        effective_error=least.error,
        by_populations=by_populations.size,
        by_profile=by_profile.size,
        bias=least.bias,
        formula=float(np.mean(formulas)) if formulas else None,
        mixing=_mixing(tracks),
        missed=int((populations == 0.0).all(0).sum()),
        curve=_curve(tracks, truth),
    )


def _mixing(tracks: Sequence[Track]) -> Mixing | None:
    """Mixing time of the chains of all runs, which are cut to the same length."""
    known = [track.series for track in tracks if track.series is not None]
    draws = min((len(series) for series in known), default=0)
    if draws < SHORTEST:
        return None
    series = np.concatenate([each[:draws] for each in known], axis=1)
    frames = sum(track.frames for track in tracks)
    apart = series.size / sequence_size(series)
    evaluations, seconds = (
        apart * float(sum(getattr(track, name)[-1] for track in tracks)) / frames for name in ("evaluations", "seconds")
    )
    return Mixing(evaluations, seconds, circular_rhat(series))


def _curve(tracks: Sequence[Track], truth: Truth) -> tuple[Checkpoint, ...]:
    """Errors at the checkpoints that all runs have: at equal shares of each run."""
    count = min(len(track.evaluations) for track in tracks)
    places = [np.linspace(0, len(track.evaluations) - 1, count).round().astype(np.int64) for track in tracks]
    found = []
    for number in range(count):
        rows = [place[number] for place in places]
        errors = profile_errors(
            np.stack([track.profile[row] for track, row in zip(tracks, rows, strict=True)]), truth.profile
        )
        found.append(
            Checkpoint(
                evaluations=float(np.mean([t.evaluations[row] for t, row in zip(tracks, rows, strict=True)])),
                seconds=float(np.mean([t.seconds[row] for t, row in zip(tracks, rows, strict=True)])),
                error=float(errors.mean()),
                spread=float(errors.std(ddof=1)),
            )
        )
    return tuple(found)


def _mean(costs: Sequence[Cost]) -> Cost:
    return Cost(*(float(np.mean(column)) for column in zip(*costs, strict=True)))


def _record(standing: Standing) -> dict[str, Any]:
    record = asdict(standing)
    for name in ("run", "setup", "training"):
        record[name] = getattr(standing, name)._asdict()
    record["mixing"] = None if standing.mixing is None else standing.mixing._asdict() | {"bound": standing.stuck}
    record["curve"] = {
        name: [getattr(checkpoint, name) for checkpoint in standing.curve] for name in Checkpoint._fields
    }
    return record | {"per_second": standing.per_second, "per_evaluation": standing.per_evaluation}
