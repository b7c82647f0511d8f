"""All distances of samples from a reference; the samples are a model's, plain or weighted, or another reference's."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from boltzport.analysis.evaluation.observables import Observables
from boltzport.analysis.evaluation.tables import Tables
from boltzport.analysis.metrics import (
    Batch,
    Distance,
    Divergence,
    Draws,
    Interval,
    divergence,
    draw_blocks,
    first_axis,
    mean_divergence,
    profile_error,
    symmetric,
    torsion_features,
    wasserstein_line,
    wasserstein_plane,
    wasserstein_torus,
    with_error,
)


class Found(NamedTuple):
    """A distance with its interval."""

    value: float
    interval: Interval | None


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Distances from a reference, by name.

    Attributes:
        backbone: Whether the pairs are phi and psi.
        pairs: `kl` and `tv` by residue or pair of torsions, and their `mean`.
        profiles: `mae` of the free energy along the first torsion of each pair, such as phi, in kT.
        unvisited: Number of bins of that torsion that the reference visits and the samples do not, by residue.
        density_2d: `kl` and `tv` of the plane of a toy; empty for a molecule.
        tica: `kl` of the slow coordinates; empty if there are none.
        wasserstein: `torus`, `energy`, `tica` of a molecule; `plane`, `energy` of a toy.
    """

    backbone: bool = True
    pairs: dict[str, dict[str, Found]] = field(default_factory=dict)
    profiles: dict[str, dict[str, Found]] = field(default_factory=dict)
    unvisited: dict[str, int] = field(default_factory=dict)
    density_2d: dict[str, Found] = field(default_factory=dict)
    tica: dict[str, Found] = field(default_factory=dict)
    wasserstein: dict[str, Found] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        """Group of the metrics of the profiles."""
        return "phi_profile" if self.backbone else "torsion_profile"

    def flat(self) -> Iterator[tuple[str, Found]]:
        """All distances, with names such as `ramachandran.ALA2.kl` and `wasserstein.energy`."""
        pairs = "ramachandran" if self.backbone else "torsion_pairs"
        for group, rows in ((pairs, self.pairs), (self.profile, self.profiles)):
            for name, found in rows.items():
                for key, distance in found.items():
                    yield f"{group}.{name}.{key}", distance
        for group, found in (("density_2d", self.density_2d), ("tica", self.tica), ("wasserstein", self.wasserstein)):
            for key, distance in found.items():
                yield f"{group}.{key}", distance


def measure_distances(
    observables: Observables,
    *,
    reference: Tables,
    samples: Tables,
    reference_cloud: Batch,
    cloud: Batch,
    generator: np.random.Generator,
) -> Distances:
    """All distances of samples from a reference.

    Args:
        observables: Observables to compare.
        reference: Histograms of the reference.
        samples: Histograms of the samples, on the same grids.
        reference_cloud: Some frames of the reference, in random order.
        cloud: Some of the samples, of equal weight, in random order.
        generator: Random generator of bootstrap replicates.
    """
    draws = Draws(draw_blocks(reference.blocks, generator), draw_blocks(samples.blocks, generator))
    pairs, profiles, unvisited = {}, {}, {}
    divergences = []
    for pair, truth, found in zip(observables.pairs, reference.pairs, samples.pairs, strict=True):
        divergences.append(divergence(truth, found, draws))
        pairs[pair.name] = _distances(divergences[-1])
        error = profile_error(first_axis(truth), first_axis(found), draws)
        profiles[pair.name] = {"mae": Found(value=error.mae, interval=error.interval)}
        unvisited[pair.name] = error.unvisited
    if divergences:
        pairs["mean"] = _distances(mean_divergence(divergences))
    density, slow = {}, {}
    if reference.plane is not None and samples.plane is not None:
        density = _distances(divergence(reference.plane, samples.plane, draws))
    if reference.tica is not None and samples.tica is not None:
        slow = {"kl": _distances(divergence(reference.tica, samples.tica, draws))["kl"]}
    return Distances(
        backbone=observables.backbone or not observables.pairs,
        pairs=pairs,
        profiles=profiles,
        unvisited=unvisited,
        density_2d=density,
        tica=slow,
        wasserstein=dict(_transport(observables, samples, reference_cloud, cloud)),
    )


def _transport(observables: Observables, tables: Tables, reference: Batch, cloud: Batch) -> Iterator[tuple[str, Found]]:
    """W2 distances; both clouds are cut to the same size, on which the bias depends."""
    count = min(len(reference.block), len(cloud.block))
    first, second = reference.take(np.arange(count)), cloud.take(np.arange(count))
    if observables.pairs:
        angles = [column for pair in observables.pairs for column in (pair.first, pair.second)]
        yield (
            "torus",
            _distance(with_error(wasserstein_torus, first.coordinates[:, angles], second.coordinates[:, angles])),
        )
    if observables.plane is not None:
        plane = list(observables.plane)
        yield (
            "plane",
            _distance(with_error(wasserstein_plane, first.coordinates[:, plane], second.coordinates[:, plane])),
        )
    finite = np.isfinite(second.reduced_energy)
    yield "energy", _distance(with_error(wasserstein_line, first.reduced_energy, second.reduced_energy[finite]))
    if tables.grids.tica is not None:
        tica = tables.grids.tica[0]
        projected = [
            tica.project(torsion_features(part.coordinates[:, list(observables.torsions)])) for part in (first, second)
        ]
        yield "tica", _distance(with_error(wasserstein_plane, *projected))


def _distances(found: Divergence) -> dict[str, Found]:
    return {
        "kl": Found(value=found.kl, interval=found.kl_interval),
        "tv": Found(value=found.tv, interval=found.tv_interval),
    }


def _distance(found: Distance) -> Found:
    bracket = symmetric(found.value, found.error)
    return Found(found.value, None if bracket is None else bracket._replace(lower=max(bracket.lower, 0.0)))
