"""What the race compares: populations of basins and wells, and the profile of the slowest torsion; and their truth."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from boltzport.analysis.metrics import BasinSums, basin_codes, sector_codes
from boltzport.analysis.metrics.chains import basins
from boltzport.bench.effective import ratio_variance
from boltzport.core.errors import InputError
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann import rotors

BINS = 36
"""Number of bins of a profile: ten degrees each."""
LEAST = 1e-3
"""Smallest probability that counts in the effective size."""


class Torsions(NamedTuple):
    """The torsions that are observed.

    Attributes:
        names: Their names.
        places: Their columns among the internal coordinates.
        pairs: For each residue with phi and psi, their places among the observed torsions.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]

    def codes(self, torsions: Float[np.ndarray, "frames torsions"]) -> Int[np.ndarray, " frames"]:
        """Basin of each frame: of the backbone, or the sectors of all torsions if there is none."""
        if not self.pairs:
            return sector_codes(torsions)
        return basin_codes(torsions[:, np.array(self.pairs)])


class Part(NamedTuple):
    """Frames of a sampler: their torsions, and their log-weights; None if these are all equal."""

    torsions: Float[np.ndarray, "frames torsions"]
    log_weights: Float[np.ndarray, " frames"] | None


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What an exact sampler would find, with the variance of that.

    Attributes:
        source: Origin of the samples.
        samples: Number of samples.
        torsion: Name of the slowest torsion: the one with the highest barrier between two of its wells.
        place: Place of this torsion among the observed ones.
        barrier: Height of that barrier above the lowest point in kT.
        profile: Probabilities of the bins of this torsion, from -180 degrees.
        profile_variance: Their variances.
        codes: Codes of the basins that count.
        wells: Number of the well of each bin; bins of wells that do not count have -1.
        populations: Probabilities of these basins, then of the wells.
        populations_variance: Their variances.
    """

    source: str
    samples: int
    torsion: str
    place: int
    barrier: float
    profile: Float[np.ndarray, " bins"]
    profile_variance: Float[np.ndarray, " bins"]
    codes: tuple[int, ...]
    wells: Int[np.ndarray, " bins"]
    populations: Float[np.ndarray, " populations"]
    populations_variance: Float[np.ndarray, " populations"]

    def well_sums(self, profile: Float[np.ndarray, "*parts bins"]) -> Float[np.ndarray, "*parts wells"]:
        """Sums of a profile over the wells."""
        return np.stack([profile[..., self.wells == well].sum(-1) for well in range(self.wells.max() + 1)], axis=-1)


def torsions_of(molecule: Molecule) -> Torsions:
    """The torsions of a molecule that are observed: phi, psi and chi, or those that tell conformers apart.

    Raises:
        InputError: There are none.
    """
    columns = molecule.coordinates.columns
    named = {column.name: place for place, column in enumerate(columns) if _observed(column.name)}
    if not any(f"{name.removesuffix('phi')}psi" in named for name in named if name.endswith(".phi")):
        named = {columns[place].name: place for place in rotors(molecule).telling}
    if not named:
        raise InputError(f"{molecule.name} has no torsion that turns, and so no slow observable")
    order = list(named)
    pairs = [
        (order.index(name), order.index(f"{name.removesuffix('phi')}psi"))
        for name in order
        if name.endswith(".phi") and f"{name.removesuffix('phi')}psi" in named
    ]
    return Torsions(tuple(order), tuple(named.values()), tuple(pairs))


def _observed(name: str) -> bool:
    kind = name.partition(".")[2]
    return kind in ("phi", "psi") or (kind.startswith("chi") and kind[3:].isdigit())


def histogram(
    angles: Float[np.ndarray, " frames"], weights: Float[np.ndarray, " frames"]
) -> Float[np.ndarray, " bins"]:
    """Sums of weights in equal bins of the circle from -180 degrees."""
    cells = np.floor((angles.astype(np.float64) + math.pi) / (2 * math.pi) * BINS).astype(np.int64) % BINS
    return np.bincount(cells, weights, minlength=BINS)


def find_truth(
    torsions: Torsions, parts: Iterable[tuple[Part, int]], *, blocks: int, source: str, torsion: str | None = None
) -> Truth:
    """The truth from independent blocks of samples.

    Args:
        torsions: The observed torsions.
        parts: Samples, each part with the number of its block.
        blocks: Number of blocks.
        source: Origin of the samples.
        torsion: Name of the torsion of the profile; the slowest by default.

    Raises:
        InputError: There is no such torsion, or none has two wells.
    """
    sums = np.zeros((len(torsions.names), blocks, BINS))
    tally, count, offset = BasinSums(blocks=blocks), 0, None
    for part, block in parts:
        if offset is None:
            offset = 0.0 if part.log_weights is None else float(part.log_weights.max())
        weights = np.ones(len(part.torsions)) if part.log_weights is None else np.exp(part.log_weights - offset)
        for place in range(len(torsions.names)):
            sums[place, block] += histogram(part.torsions[:, place], weights)
        tally.add(torsions.codes(part.torsions), np.full(len(weights), block), weights)
        count += len(weights)
    totals = tally.total()
    place, barrier = _slowest(sums.sum(1) / totals.sum(), torsions.names, torsion, count)
    codes = tuple(code for code in sorted(tally.sums) if LEAST <= tally.sums[code].sum() / totals.sum() <= 1.0 - LEAST)
    profile = sums[place].sum(0) / totals.sum()
    wells = _wells(profile, count)
    each = np.stack([tally.sums[code] for code in codes], axis=1) if codes else np.zeros((blocks, 0))
    columns = [each, *(sums[place][:, wells == well].sum(1, keepdims=True) for well in range(wells.max() + 1))]
    joined = np.concatenate(columns, axis=1)
    return Truth(
        source=source,
        samples=count,
        torsion=torsions.names[place],
        place=place,
        barrier=barrier,
        profile=profile,
        profile_variance=ratio_variance(sums[place], totals),
        codes=codes,
        wells=wells,
        populations=joined.sum(0) / totals.sum(),
        populations_variance=ratio_variance(joined, totals),
    )


def _wells(profile: np.ndarray, count: int) -> Int[np.ndarray, " bins"]:
    """Number of the well of each bin, -1 for wells that hold hardly anything or all."""
    labels = basins(np.round(profile * count).astype(np.int64))
    kept = [label for label in np.unique(labels) if LEAST <= profile[labels == label].sum() <= 1.0 - LEAST]
    found = np.full(len(profile), -1)
    for number, label in enumerate(kept):
        found[labels == label] = number
    return found


def _slowest(
    profiles: Float[np.ndarray, "torsions bins"], names: Sequence[str], wanted: str | None, count: int
) -> tuple[int, float]:
    """Place of a torsion, of the one with the highest barrier by default, and its barrier in kT."""
    if wanted is not None and wanted not in names:
        raise InputError(f"torsion: expected one of {', '.join(names)}, got {wanted}")
    heights = [_barrier(profile, count) for profile in profiles]
    place = int(np.argmax(heights)) if wanted is None else names.index(wanted)
    if heights[place] == 0.0:
        raise InputError("no torsion has two wells, and so there is no slow observable; name a --torsion")
    return place, heights[place]


def _barrier(profile: np.ndarray, count: int) -> float:
    """Largest of the lowest passes from the deepest bin to the other wells, in kT; 0 with a single well."""
    energy = -np.log(np.maximum(profile, 0.5 / count))
    labels, deepest, heights = _wells(profile, count), int(energy.argmin()), [0.0]
    around = np.roll(energy, -deepest)
    for well in set(labels.tolist()) - {-1, int(labels[deepest])}:
        bottom = int(np.where(labels == well, energy, np.inf).argmin())
        at = (bottom - deepest) % len(profile)
        heights.append(min(around[: at + 1].max(), max(around[at:].max(), around[0])) - energy[deepest])
    return float(max(heights))
