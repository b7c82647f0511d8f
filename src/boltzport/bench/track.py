"""What one run of a sampler found, and at what cost, as it went on."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.analysis.metrics import BasinSums, circular_bulk_size
from boltzport.bench.observed import BINS, Part, Torsions, Truth, histogram
from boltzport.core.errors import InputError

CHECKPOINTS = 40
"""Number of places along a run at which its errors are known, at equal ratios."""
SHORTEST = 8
"""Number of frames of a chain below which its effective size cannot be estimated."""


class Cost(NamedTuple):
    """Target evaluations, with or without forces, and seconds of processor time."""

    evaluations: float
    seconds: float


class Budget(NamedTuple):
    """How long a run goes on, without its preparation: seconds of processor time, or evaluations."""

    seconds: float = math.inf
    evaluations: float = math.inf

    def part(self, spent: Cost) -> float:
        """Fraction of the budget that is spent, at most 1."""
        return min(max(spent.seconds / self.seconds, spent.evaluations / self.evaluations), 1.0)


class Track(NamedTuple):
    """What a run had found after parts of its length.

    Attributes:
        setup: Cost before the first frame.
        evaluations: Evaluations until each checkpoint, without the setup.
        seconds: Processor time until each checkpoint, without the setup.
        profile: Probabilities of the bins of the slowest torsion at each checkpoint.
        populations: Probabilities of basins and wells at each checkpoint.
        formula: Effective size by the usual formula: that of the weights, or that of correlated chains.
        frames: Number of frames.
        series: Angles of the slowest torsion along the chains; None if the frames have weights.
    """

    setup: Cost
    evaluations: Float[np.ndarray, " checkpoints"]
    seconds: Float[np.ndarray, " checkpoints"]
    profile: Float[np.ndarray, "checkpoints bins"]
    populations: Float[np.ndarray, "checkpoints populations"]
    formula: float
    frames: int
    series: Float[np.ndarray, "draws chains"] | None


class Tracker:
    """Collects the parts of a run.

    Args:
        torsions: The observed torsions.
        truth: Says which torsion is the slowest, and which basins count.
        chains: Number of chains that frames without weights come from, one frame of each after the other.
    """

    def __init__(self, torsions: Torsions, truth: Truth, *, chains: int = 1) -> None:
        self._torsions, self._truth, self._chains = torsions, truth, chains
        self._sums, self._codes = np.zeros(BINS), BasinSums(blocks=1)
        self._rows: list[tuple[float, float, np.ndarray, np.ndarray]] = []
        self._offset: float | None = None
        self._weight, self._square, self._frames = 0.0, 0.0, 0
        self._angles: list[np.ndarray] | None = []

    def add(self, part: Part, spent: Cost) -> None:
        """Add frames, with all that was spent until then."""
        weights = self._weights(part)
        angles = part.torsions[:, self._truth.place]
        self._sums += histogram(angles, weights)
        self._codes.add(self._torsions.codes(part.torsions), np.zeros(len(weights), dtype=np.int64), weights)
        self._weight += float(weights.sum())
        self._square += float((weights**2).sum())
        self._frames += len(weights)
        if part.log_weights is not None:
            self._angles = None
        elif self._angles is not None:
            self._angles.append(angles)
        if self._weight > 0.0:
            profile = self._sums / self._weight
            counted = np.array([float(np.sum(self._codes.sums.get(code, 0.0))) for code in self._truth.codes])
            populations = np.concatenate([counted / self._weight, self._truth.well_sums(profile)])
            self._rows.append((spent.evaluations, spent.seconds, profile, populations))

    def track(self, setup: Cost) -> Track:
        """The run.

        Raises:
            InputError: It has no frames.
        """
        if not self._rows:
            raise InputError("a run ended before its first frame; expected more --seconds, or more --evaluations")
        last = len(self._rows)
        kept = np.unique(np.geomspace(1, last, CHECKPOINTS).round().astype(np.int64)) - 1
        evaluations, seconds, profile, populations = (
            np.array([self._rows[row][column] for row in kept]) for column in range(4)
        )
        series = self._series()
        formula = self._formula() if series is None else sequence_size(series)
        return Track(setup, evaluations, seconds, profile, populations, formula, self._frames, series)

    def _weights(self, part: Part) -> Float[np.ndarray, " frames"]:
        if part.log_weights is None:
            return np.ones(len(part.torsions))
        if self._offset is None:
            self._offset = float(part.log_weights.max())
        return np.exp(part.log_weights - self._offset)

    def _formula(self) -> float:
        return self._weight**2 / self._square

    def _series(self) -> Float[np.ndarray, "draws chains"] | None:
        if self._angles is None:
            return None
        series = np.concatenate(self._angles).astype(np.float64)
        return series[: len(series) // self._chains * self._chains].reshape(-1, self._chains)


def sequence_size(series: Float[np.ndarray, "draws chains"]) -> float:
    """Effective size of angles along chains; NaN if these are too short."""
    return circular_bulk_size(series) if len(series) >= SHORTEST else math.nan
