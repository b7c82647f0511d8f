"""A model held against a reference, and the reference against another one for the noise floor."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from boltzport.evaluate.comparison import Comparison, compare
from boltzport.evaluate.evaluation import AgainstReference
from boltzport.evaluate.frames import Frames
from boltzport.evaluate.model import ModelSamples, Progress
from boltzport.evaluate.reference import Densities, tabulate
from boltzport.evaluate.tables import Tables
from boltzport.evaluate.timing import Timing
from boltzport.metrics import Covering, Skipped, Tica, bounds, cover

MOST_BRIDGED = 200_000
"""How many samples of the model the bridge to a reference takes; beyond it, the error is that of the reference."""


class Against(NamedTuple):
    """What a reference says of a model; its bridge estimate of log Z; its histograms."""

    figures: AgainstReference
    covering: Covering
    tables: Tables


def against_reference(
    model: ModelSamples,
    frames: Frames,
    found: Densities,
    *,
    floor: Frames | None,
    tica: Tica | Skipped,
    provenance: Mapping[str, object],
    transport_samples: int,
    batch: int,
    generator: np.random.Generator,
    timing: Timing,
    progress: Progress,
) -> Against:
    """Hold a model against a reference.

    Args:
        model: What is kept of the model's samples.
        frames: The reference.
        found: Densities of model and target at its frames.
        floor: A second reference; without it, the even blocks of the first are compared with the odd ones.
        tica: Slow coordinates of the reference.
        provenance: Where the reference comes from.
        transport_samples: Samples of the Wasserstein distances.
        batch: How many frames are counted at once.
        generator: Draws frames and bootstrap replicates.
        timing: Where time is noted.
        progress: Called after each comparison.
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
            found_distances = compare(
                observables,
                reference=tables,
                samples=samples,
                reference_cloud=cloud,
                cloud=points,
                generator=generator,
            )
        compared.append(found_distances)
        progress("comparisons", len(compared), len(sets) + 1)
    noise = _noise(
        frames, tables, floor, transport_samples=transport_samples, batch=batch, generator=generator, timing=timing
    )
    progress("comparisons", len(sets) + 1, len(sets) + 1)
    figures = AgainstReference(
        bounds=bounds(found.log_q, found.log_p, frames.weights, frames.block, generator),
        plain=compared[0],
        reweighted=compared[1] if len(compared) > 1 else None,
        floor=noise.comparison,
        floor_samples=noise.samples,
        tica=tica,
        transport_samples=min(len(cloud.block), len(model.cloud.block)),
        provenance=provenance,
    )
    return Against(figures, covering, tables)


class _Noise(NamedTuple):
    comparison: Comparison | None
    samples: int


def _noise(
    frames: Frames,
    tables: Tables,
    floor: Frames | None,
    *,
    transport_samples: int,
    batch: int,
    generator: np.random.Generator,
    timing: Timing,
) -> _Noise:
    """Distances between two references, the second in the place of the model."""
    if floor is None and frames.blocks < 2:
        return _Noise(None, 0)
    truth, samples = tables.halves() if floor is None else (tables, None)
    truth_frames, other = (frames.half(0), frames.half(1)) if floor is None else (frames, floor)
    if samples is None:
        with timing.stage("counting"):
            samples = tabulate(tables.observables, tables.grids, other, batch=batch)
    with timing.stage("noise floor"):
        comparison = compare(
            tables.observables,
            reference=truth,
            samples=samples,
            reference_cloud=truth_frames.draw(transport_samples, generator),
            cloud=other.draw(transport_samples, generator),
            generator=generator,
        )
    return _Noise(comparison, len(other.weights))
