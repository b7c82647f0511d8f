"""Basins of the backbone: which of them samples visit, how often, and at what free energy.

Each residue is in one of six regions of its (phi, psi) plane, in degrees, with phi taken from -220 to 140, so that the
extended region is whole:

| region  | phi          | psi         |
|---------|--------------|-------------|
| alphaR  | -220 to 0    | -120 to 50  |
| C5      | -220 to -100 | the rest    |
| PII     | -100 to 0    | the rest    |
| alphaL  | 0 to 140     | -20 to 120  |
| C7ax    | 0 to 140     | -150 to -20 |
| epsilon | 0 to 140     | the rest    |

PII holds C7eq as well, which is a shoulder of it in most force fields. A peptide's basin is the regions of all its
residues, joined by hyphens.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boltzport.metrics.bootstrap import Draws, Interval, interval
from boltzport.metrics.stream import Batch

REGIONS = ("alphaR", "C5", "PII", "alphaL", "C7ax", "epsilon")
NORMAL_95 = 1.96
"""Half of an interval of 95 %, in standard errors."""
MOST_RESIDUES = 24
"""Six to this power still fits into 64 bits."""


MOST = 12
"""How many basins are described at least, where there are so many."""
ABOVE = 0.005
"""Every basin is described that has more of the probability, in the model or in the reference."""


class Basin(NamedTuple):
    """A basin.

    Attributes:
        name: Regions of the residues, joined by hyphens.
        population: Probability by the weighted samples.
        population_interval: Its interval.
        free_energy: kT above the most populated basin.
        free_energy_interval: Its interval.
        population_model: Share of the samples as they are.
        population_reference: Probability in the reference, where there is one.
        population_reference_interval: Its interval.
    """

    name: str
    population: float
    population_interval: Interval | None
    free_energy: float
    free_energy_interval: Interval | None
    population_model: float
    population_reference: float | None
    population_reference_interval: Interval | None


def basin_codes(pairs: Float[np.ndarray, "batch residues 2"]) -> Int[np.ndarray, " batch"]:
    """Basin of each sample as a number: the regions of its residues as digits in base six, the first the highest.

    Args:
        pairs: (phi, psi) of each residue in radian; residues beyond the 24th are left out.
    """
    codes = np.zeros(len(pairs), dtype=np.int64)
    for residue in range(min(pairs.shape[1], MOST_RESIDUES)):
        phi = np.mod(np.degrees(pairs[:, residue, 0]) + 220.0, 360.0) - 220.0
        psi = np.mod(np.degrees(pairs[:, residue, 1]) + 180.0, 360.0) - 180.0
        left = np.where((psi >= -120.0) & (psi < 50.0), 0, np.where(phi < -100.0, 1, 2))
        right = np.where((psi >= -20.0) & (psi < 120.0), 3, np.where((psi >= -150.0) & (psi < -20.0), 4, 5))
        codes = codes * len(REGIONS) + np.where(phi < 0.0, left, right)
    return codes


def basin_name(code: int, *, residues: int) -> str:
    """Name of a basin from its number.

    Example:
        >>> basin_name(6 * 3 + 1, residues=2)
        'alphaL-C5'
    """
    digits = []
    for _ in range(min(residues, MOST_RESIDUES)):
        code, digit = divmod(code, len(REGIONS))
        digits.append(REGIONS[digit])
    return "-".join(reversed(digits))


class BasinSums:
    """Sums of weights in each basin and block, of samples that stream by.

    Args:
        blocks: Number of blocks.
    """

    def __init__(self, *, blocks: int) -> None:
        self._blocks = blocks
        self.sums: dict[int, np.ndarray] = {}

    def add(
        self,
        codes: Int[np.ndarray, " batch"],
        block: Int[np.ndarray, " batch"],
        weights: Float[np.ndarray, " batch"] | None = None,
    ) -> None:
        """Count samples, each with its weight, one by default."""
        found, position = np.unique(codes, return_inverse=True)
        flat = np.bincount(position * self._blocks + block, weights, minlength=len(found) * self._blocks)
        for code, sums in zip(found.tolist(), flat.reshape(len(found), self._blocks), strict=True):
            self.sums[code] = self.sums.get(code, 0.0) + sums

    def rescale(self, factor: float) -> None:
        """Multiply all weights counted so far."""
        for code in self.sums:
            self.sums[code] = self.sums[code] * factor

    def total(self) -> np.ndarray:
        """Sum of weights of each block."""
        return np.sum(list(self.sums.values()), axis=0) if self.sums else np.zeros(self._blocks)

    def population(self, code: int) -> float:
        """Probability of a basin; zero where it was not visited."""
        total = self.total().sum()
        return float(np.sum(self.sums.get(code, 0.0)) / total) if total > 0 else 0.0

    def population_interval(self, code: int, draws: Float[np.ndarray, "replicates blocks"]) -> Interval | None:
        """Interval of the probability of a basin; none where it was not visited."""
        if code not in self.sums:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            replicates = (draws @ self.sums[code]) / (draws @ self.total())
        return interval(self.population(code), replicates, blocks=draws.shape[1], least=0.0)


class Representatives:
    """The sample of lowest energy in each basin, of samples that stream by."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, np.ndarray]] = {}

    def add(self, codes: Int[np.ndarray, " batch"], batch: Batch) -> None:
        """Let samples compete; those whose evaluation failed do not."""
        energy = np.where(np.isfinite(batch.log_weights), batch.reduced_energy, np.inf)
        order = np.lexsort((energy, codes))
        found, first = np.unique(codes[order], return_index=True)
        for code, index in zip(found.tolist(), order[first].tolist(), strict=True):
            if energy[index] < self._found.get(code, (np.inf,))[0]:
                self._found[code] = (float(energy[index]), batch.coordinates[index].copy())

    def coordinates(self, code: int) -> np.ndarray | None:
        """Coordinates of the representative of a basin; none where no sample lies in it."""
        return self._found[code][1] if code in self._found else None


def most_populated(sums: BasinSums, *, count: int, above: float = 1.0) -> list[int]:
    """Numbers of the basins of most weight, the most populated first.

    Args:
        sums: Weights of basins.
        count: How many of them.
        above: Those of a greater probability are not left out, however many they are.
    """
    order = sorted(sums.sums, key=lambda code: -float(sums.sums[code].sum()))
    least = above * float(sums.total().sum())
    return [code for place, code in enumerate(order) if place < count or float(sums.sums[code].sum()) > least]


class Agreement(NamedTuple):
    """How populations of basins agree with those of a reference, in units of their errors.

    Attributes:
        basins: How many are compared: those that have enough of the reference.
        mean_square: Of the deviations; 1 is what errors alone make of it.
        largest: The largest deviation.
        where: The basin that has it.
    """

    basins: int
    mean_square: float
    largest: float
    where: str


def agreement(basins: Sequence[Basin], *, above: float) -> Agreement | None:
    """Compare populations with those of a reference; none where no basin has enough of it.

    Args:
        basins: As `describe_basin` gives them.
        above: Least probability in the reference.
    """
    deviations = {}
    for basin in basins:
        there = basin.population_reference
        if there is None or there <= above:
            continue
        widths = [
            0.5 * (i.upper - i.lower) for i in (basin.population_interval, basin.population_reference_interval) if i
        ]
        error = math.hypot(*widths) / NORMAL_95
        if error > 0.0:
            deviations[basin.name] = abs(basin.population - there) / error
    if not deviations:
        return None
    where = max(deviations, key=lambda name: deviations[name])
    mean_square = sum(deviation**2 for deviation in deviations.values()) / len(deviations)
    return Agreement(len(deviations), mean_square, deviations[where], where)


def describe_basin(
    code: int,
    *,
    first: int,
    residues: int,
    weighted: BasinSums,
    plain: BasinSums,
    reference: BasinSums | None,
    draws: Draws,
) -> Basin:
    """Metrics of one basin.

    Args:
        code: Number of the basin.
        first: Number of the basin of most weight, where free energies are zero.
        residues: Number of pairs of torsions.
        weighted: Sums of importance weights.
        plain: Counts of the samples as they are.
        reference: Sums of the reference.
        draws: Which blocks the bootstrap draws.
    """
    nothing = np.zeros(draws.model.shape[1])
    own, most = (draws.model @ weighted.sums.get(number, nothing) for number in (code, first))
    population, largest = weighted.population(code), weighted.population(first)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Not of the quotient, which overflows where a basin has next to nothing.
        free_energies = np.log(most) - np.log(own)
    free_energy = float(np.log(largest / population)) if population > 0 else float("inf")
    blocks = draws.model.shape[1]
    return Basin(
        name=basin_name(code, residues=residues),
        population=population,
        population_interval=weighted.population_interval(code, draws.model),
        free_energy=free_energy,
        free_energy_interval=None if code == first else interval(free_energy, free_energies, blocks=blocks),
        population_model=plain.population(code),
        population_reference=None if reference is None else reference.population(code),
        population_reference_interval=(
            None if reference is None else reference.population_interval(code, draws.reference)
        ),
    )
