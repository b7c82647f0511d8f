"""Comparison of a model with a reference, and of two references for the noise floor."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from boltzport.analysis.evaluation.distances import Distances, measure_distances
from boltzport.analysis.evaluation.estimates import AgainstReference
from boltzport.analysis.evaluation.frames import ReferenceFrames
from boltzport.analysis.evaluation.model import ModelSamples
from boltzport.analysis.evaluation.reference import Densities, tabulate
from boltzport.analysis.evaluation.tables import Tables
from boltzport.analysis.metrics import Covering, Skipped, Tica, bounds, cover
from boltzport.core.progress import Progress
from boltzport.core.stopwatch import Timing

MOST_BRIDGED = 200_000
"""Maximum number of model samples in the bridge to a reference; beyond it, the error of the reference dominates."""


class Against(NamedTuple):
    """Comparison with a reference, the bridge estimate of log Z, and the histograms of the reference."""

    found: AgainstReference
    covering: Covering
    tables: Tables


def against_reference(
    model: ModelSamples,
    frames: ReferenceFrames,
    found: Densities,
    *,
    floor: ReferenceFrames | None,
    tica: Tica | Skipped,
    provenance: Mapping[str, object],
    transport_samples: int,
    batch: int,
    generator: np.random.Generator,
    timing: Timing,
    progress: Progress,
) -> Against:
    """Compare a model with a reference.

    Args:
        model: Statistics of the model's samples.
        frames: The reference.
        found: Densities of model and target at the frames of the reference.
        floor: A second reference; without it, the even blocks of the first are compared with the odd ones.
        tica: Slow coordinates of the reference.
        provenance: Origin of the reference.
        transport_samples: Number of samples for the Wasserstein distances.
        batch: Number of frames counted at once.
        generator: Random generator of frames and bootstrap replicates.
        timing: Records the time of each stage.
        progress: Progress callback, called after each comparison.
    """
    observables, grids = model.plain.observables, model.plain.grids
    with timing.stage("bridge"):
        covering = cover(
            model.log_weights[:MOST_BRIDGED],
            found.log_p - found.log_q,
            reference_weights=frames.weights,
            reference_block=frames.block,
            drawn=len(model.log_weights),
        )
    with timing.stage("counting"):
        tables = tabulate(observables, grids, frames, batch=batch)
    cloud = frames.draw(transport_samples, generator)
    sets = [(model.plain, model.cloud)]
    if model.weighted_cloud is not None:
        sets.append((model.weighted, model.weighted_cloud))
    compared = []
    for samples, points in sets:
        with timing.stage("comparing"):
            distances = measure_distances(
                observables,
                reference=tables,
                samples=samples,
                reference_cloud=cloud,
                cloud=points,
                generator=generator,
            )
        compared.append(distances)
        progress("comparisons", len(compared), len(sets) + 1)
    noise = _noise(
        frames, tables, floor, transport_samples=transport_samples, batch=batch, generator=generator, timing=timing
    )
    progress("comparisons", len(sets) + 1, len(sets) + 1)
    against = AgainstReference(
        bounds=bounds(found.log_q, found.log_p, frames.weights, frames.block, generator),
        plain=compared[0],
        reweighted=compared[1] if len(compared) > 1 else None,
        floor=noise.distances,
        floor_samples=noise.samples,
        tica=tica,
        transport_samples=min(len(cloud.block), len(model.cloud.block)),
        provenance=provenance,
    )
    return Against(against, covering, tables)


class _Noise(NamedTuple):
    distances: Distances | None
    samples: int


def _noise(
    frames: ReferenceFrames,
    tables: Tables,
    floor: ReferenceFrames | None,
    *,
    transport_samples: int,
    batch: int,
    generator: np.random.Generator,
    timing: Timing,
) -> _Noise:
    """Distances between two references, with the second one as the model."""
    if floor is None and frames.blocks < 2:
        return _Noise(None, 0)
    truth, samples = tables.halves() if floor is None else (tables, None)
    truth_frames, other = (frames.half(0), frames.half(1)) if floor is None else (frames, floor)
    if samples is None:
        with timing.stage("counting"):
            samples = tabulate(tables.observables, tables.grids, other, batch=batch)
    with timing.stage("noise floor"):
        distances = measure_distances(
            tables.observables,
            reference=truth,
            samples=samples,
            reference_cloud=truth_frames.draw(transport_samples, generator),
            cloud=other.draw(transport_samples, generator),
            generator=generator,
        )
    return _Noise(distances, len(other.weights))
