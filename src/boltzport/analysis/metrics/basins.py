"""Basins of the backbone, or of other torsions: which ones the samples visit, with their populations and free energies.

Each residue is in one of six regions of its (phi, psi) plane, in degrees, with phi from -220 to 140, so that the
extended region is not split:

| region  | phi          | psi         |
|---------|--------------|-------------|
| alphaR  | -220 to 0    | -120 to 50  |
| C5      | -220 to -100 | the rest    |
| PII     | -100 to 0    | the rest    |
| alphaL  | 0 to 140     | -20 to 120  |
| C7ax    | 0 to 140     | -150 to -20 |
| epsilon | 0 to 140     | the rest    |

PII includes C7eq, which is a shoulder of it in most force fields. A peptide's basin is the regions of all its
residues, joined by hyphens.

A molecule without phi and psi is in one of six sectors of each torsion, by the names of Klyne and Prelog (IUPAC): sp
from -30 to 30 degrees, then +sc, +ac, ap (from 150 to 210), -ac and -sc. Its basin is the sectors of its torsions,
joined by commas.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boltzport.analysis.metrics.bootstrap import Draws, Interval, interval
from boltzport.analysis.metrics.stream import Batch

REGIONS = ("alphaR", "C5", "PII", "alphaL", "C7ax", "epsilon")
SECTORS = ("sp", "+sc", "+ac", "ap", "-ac", "-sc")
"""Sectors of a torsion from -30 degrees, each of 60 degrees."""
NORMAL_95 = 1.96
"""Half-width of a 95 % interval, in standard errors."""
MOST_RESIDUES = 24
"""Six to this power still fits into 64 bits."""


MOST = 12
"""Number of basins that are described in any case, if there are as many."""
ABOVE = 0.005
"""Every basin with a larger probability, in the model or in the reference, is described."""


class Basin(NamedTuple):
    """Metrics of a basin.

    Attributes:
        name: Regions of the residues, joined by hyphens.
        population: Probability from the weighted samples.
        population_interval: Interval of the population.
        free_energy: Free energy relative to the most populated basin, in kT.
        free_energy_interval: Interval of the free energy.
        population_model: Fraction of the unweighted samples.
        population_reference: Probability in the reference, if there is one.
        population_reference_interval: Interval of that probability.
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
    """Code of each sample's basin: the regions of its residues as digits in base six, most significant first.

    Args:
        pairs: (phi, psi) of each residue in radian; residues beyond the 24th are ignored.
    """
    codes = np.zeros(len(pairs), dtype=np.int64)
    for residue in range(min(pairs.shape[1], MOST_RESIDUES)):
        phi = np.mod(np.degrees(pairs[:, residue, 0]) + 220.0, 360.0) - 220.0
        psi = np.mod(np.degrees(pairs[:, residue, 1]) + 180.0, 360.0) - 180.0
        left = np.where((psi >= -120.0) & (psi < 50.0), 0, np.where(phi < -100.0, 1, 2))
        right = np.where((psi >= -20.0) & (psi < 120.0), 3, np.where((psi >= -150.0) & (psi < -20.0), 4, 5))
        codes = codes * len(REGIONS) + np.where(phi < 0.0, left, right)
    return codes


def sector_codes(torsions: Float[np.ndarray, "batch torsions"]) -> Int[np.ndarray, " batch"]:
    """Code of the sectors of each sample's torsions, as digits in base six, most significant first.

    Args:
        torsions: Torsions in radian; those beyond the 24th are ignored.
    """
    codes = np.zeros(len(torsions), dtype=np.int64)
    for column in range(min(torsions.shape[1], MOST_RESIDUES)):
        sector = np.floor((np.degrees(torsions[:, column]) + 30.0) / 60.0).astype(np.int64) % len(SECTORS)
        codes = codes * len(SECTORS) + sector
    return codes


def sector_name(code: int, *, torsions: int) -> str:
    """Name of the sectors of a code.

    Example:
        >>> sector_name(6 * 3 + 5, torsions=2)
        'ap,-sc'
    """
    return ",".join(SECTORS[digit] for digit in _digits(code, torsions))


def basin_name(code: int, *, residues: int) -> str:
    """Name of a basin from its code.

    Example:
        >>> basin_name(6 * 3 + 1, residues=2)
        'alphaL-C5'
    """
    return "-".join(REGIONS[digit] for digit in _digits(code, residues))


def _digits(code: int, number: int) -> list[int]:
    digits = []
    for _ in range(min(number, MOST_RESIDUES)):
        code, digit = divmod(code, len(REGIONS))
        digits.append(digit)
    return digits[::-1]


class BasinSums:
    """Sums of weights in each basin and block, accumulated over a stream of samples.

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
        """Add samples with their weights, which are one by default."""
        found, position = np.unique(codes, return_inverse=True)
        flat = np.bincount(position * self._blocks + block, weights, minlength=len(found) * self._blocks)
        for code, sums in zip(found.tolist(), flat.reshape(len(found), self._blocks), strict=True):
            self.sums[code] = self.sums.get(code, 0.0) + sums

    def rescale(self, factor: float) -> None:
        """Multiply all weights added so far."""
        for code in self.sums:
            self.sums[code] = self.sums[code] * factor

    def total(self) -> np.ndarray:
        """Sum of weights of each block."""
        return np.sum(list(self.sums.values()), axis=0) if self.sums else np.zeros(self._blocks)

    def population(self, code: int) -> float:
        """Probability of a basin; zero if it was not visited."""
        total = self.total().sum()
        return float(np.sum(self.sums.get(code, 0.0)) / total) if total > 0 else 0.0

    def population_interval(self, code: int, draws: Float[np.ndarray, "replicates blocks"]) -> Interval | None:
        """Interval of the probability of a basin; None if it was not visited."""
        if code not in self.sums:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            replicates = (draws @ self.sums[code]) / (draws @ self.total())
        return interval(self.population(code), replicates, blocks=draws.shape[1], least=0.0)


class Representatives:
    """The sample of lowest energy in each basin, from a stream of samples."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, np.ndarray]] = {}

    def add(self, codes: Int[np.ndarray, " batch"], batch: Batch) -> None:
        """Update the representatives with a batch; samples whose evaluation failed are ignored."""
        energy = np.where(np.isfinite(batch.log_weights), batch.reduced_energy, np.inf)
        order = np.lexsort((energy, codes))
        found, first = np.unique(codes[order], return_index=True)
        for code, index in zip(found.tolist(), order[first].tolist(), strict=True):
            if energy[index] < self._found.get(code, (np.inf,))[0]:
                self._found[code] = (float(energy[index]), batch.coordinates[index].copy())

    def coordinates(self, code: int) -> np.ndarray | None:
        """Coordinates of the representative of a basin; None if the basin has no samples."""
        return self._found[code][1] if code in self._found else None


def most_populated(sums: BasinSums, *, count: int, above: float = 1.0) -> list[int]:
    """Codes of the basins with the largest weights, the most populated first.

    Args:
        sums: Weights of basins.
        count: Number of basins.
        above: Basins with a larger probability are included even if there are more than `count`.
    """
    order = sorted(sums.sums, key=lambda code: -float(sums.sums[code].sum()))
    least = above * float(sums.total().sum())
    return [code for place, code in enumerate(order) if place < count or float(sums.sums[code].sum()) > least]


class Agreement(NamedTuple):
    """Agreement of basin populations with a reference, in units of their errors.

    Attributes:
        basins: Number of compared basins: those with enough of the reference.
        mean_square: Mean square deviation; 1 is expected from the errors alone.
        largest: The largest deviation.
        where: Basin with the largest deviation.
    """

    basins: int
    mean_square: float
    largest: float
    where: str


def agreement(basins: Sequence[Basin], *, above: float) -> Agreement | None:
    """Compare populations with those of a reference; None if no basin has enough of it.

    Args:
        basins: Basins from `describe_basin`.
        above: Smallest probability in the reference.
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
    name: str,
    first: int,
    weighted: BasinSums,
    plain: BasinSums,
    reference: BasinSums | None,
    draws: Draws,
) -> Basin:
    """Metrics of one basin.

    Args:
        code: Code of the basin.
        name: Name of the basin.
        first: Code of the most populated basin, where the free energy is zero.
        weighted: Sums of importance weights.
        plain: Counts of the unweighted samples.
        reference: Sums of the reference.
        draws: Bootstrap draws of the blocks.
    """
    nothing = np.zeros(draws.model.shape[1])
    own, most = (draws.model @ weighted.sums.get(number, nothing) for number in (code, first))
    population, largest = weighted.population(code), weighted.population(first)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Not the log of the quotient, which overflows for nearly empty basins.
        free_energies = np.log(most) - np.log(own)
    free_energy = float(np.log(largest / population)) if population > 0 else float("inf")
    blocks = draws.model.shape[1]
    return Basin(
        name=name,
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
