"""Samples of a flow, drawn once and counted batch by batch, so that memory hardly grows with their number."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from boltzport.analysis.evaluation.observables import Observables, to_known
from boltzport.analysis.evaluation.tables import Grids, Tables, codes_of
from boltzport.analysis.metrics import BLOCKS, Batch, HoldOut, Representatives, Reservoir, clip_count, sample_blocks
from boltzport.core.progress import Progress
from boltzport.core.stopwatch import Timing
from boltzport.flows import Flow, draw
from boltzport.targets import CountedTarget, Purpose

HEADROOM = 300.0
"""Log-weights are relative to the largest of the first batch; a later one may exceed it by this before a rescaling."""


@dataclass(frozen=True, kw_only=True)
class ModelSamples:
    """Statistics of the samples of a flow.

    Attributes:
        log_weights: Log-weights of all samples, float64; minus infinity where an evaluation failed.
        reduced_energy: Reduced energies of all samples in kT, float32.
        plain: Histograms of the unweighted samples.
        weighted: Histograms with clipped weights.
        cloud: The first samples.
        weighted_cloud: Samples drawn by clipped weights; None if all weights are zero.
        representatives: The sample of lowest energy in each basin.
    """

    log_weights: np.ndarray
    reduced_energy: np.ndarray
    plain: Tables
    weighted: Tables
    cloud: Batch
    weighted_cloud: Batch | None
    representatives: Representatives


def draw_batches(
    flow: Flow, target: CountedTarget, *, n: int, batch: int, generator: torch.Generator, timing: Timing
) -> Iterator[Batch]:
    """Samples of a flow with their weights, batch by batch."""
    done = 0
    found = draw(
        flow, target, n, batch=batch, generator=generator, purpose=Purpose.EVALUATION, timing=timing, split=True
    )
    for drawn in found:
        yield Batch(
            coordinates=to_known(target.target, drawn.coordinates).cpu().numpy(),
            reduced_energy=-drawn.log_p.cpu().numpy(),
            log_weights=drawn.log_weights.cpu().numpy(),
            block=sample_blocks(done, done + len(drawn.log_q)),
        )
        done += len(drawn.log_q)


def collect(
    batches: Iterator[Batch],
    first: Batch,
    *,
    observables: Observables,
    grids: Grids,
    n: int,
    cloud: int,
    generator: np.random.Generator,
    timing: Timing,
    progress: Progress,
) -> ModelSamples:
    """Count samples batch by batch.

    Args:
        batches: The batches after the first.
        first: The first batch.
        observables: Observables to count.
        grids: Grids of the histograms.
        n: Total number of samples.
        cloud: Number of samples kept, and drawn by weight, for optimal transport.
        generator: Random generator of the draws by weight.
        timing: Records the time of each stage.
        progress: Progress callback, called after each batch.
    """
    log_weights, energy = np.empty(n), np.empty(n, dtype=np.float32)
    plain = Tables(observables, grids, blocks=BLOCKS)
    weighted = _Weighted(Tables(observables, grids, blocks=BLOCKS), Reservoir(cloud, generator))
    held, representatives, kept = HoldOut(clip_count(n)), Representatives(), first
    done = 0
    for batch in _chain(first, batches):
        with timing.stage("counting"):
            size = len(batch.log_weights)
            log_weights[done : done + size] = batch.log_weights
            # Regularised energies end at 1e8, far inside the range of float32.
            energy[done : done + size] = batch.reduced_energy
            done += size
            plain.add(batch.coordinates, batch.reduced_energy, batch.block)
            weighted.add(held.push(batch))
            if observables.has_basins:
                representatives.add(codes_of(observables, batch.coordinates), batch)
            if len(kept.log_weights) < cloud and batch is not first:
                kept = kept.join(batch.take(np.arange(min(size, cloud - len(kept.log_weights)))))
        progress("samples", done, n)
    last = held.finish()
    if last is not None:
        weighted.add(last)
    return ModelSamples(
        log_weights=log_weights,
        reduced_energy=energy,
        plain=plain,
        weighted=weighted.tables,
        cloud=kept.take(np.arange(min(cloud, len(kept.log_weights)))),
        weighted_cloud=weighted.reservoir.samples,
        representatives=representatives,
    )


class _Weighted:
    """Tables and reservoir of weighted samples, scaled by the largest weight so that none overflows."""

    def __init__(self, tables: Tables, reservoir: Reservoir) -> None:
        self.tables, self.reservoir = tables, reservoir
        self._shift = -math.inf

    def add(self, batch: Batch) -> None:
        largest = float(batch.log_weights.max(initial=-math.inf))
        if largest == -math.inf:
            return
        if largest > self._shift + HEADROOM:
            self.tables.rescale(math.exp(self._shift - largest))
            self._shift = largest
        self.tables.add(batch.coordinates, batch.reduced_energy, batch.block, np.exp(batch.log_weights - self._shift))
        self.reservoir.add(batch)


def _chain(first: Batch, rest: Iterator[Batch]) -> Iterator[Batch]:
    yield first
    yield from rest
