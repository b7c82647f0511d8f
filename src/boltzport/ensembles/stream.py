"""Streams of frames: weighted draws of a flow, resampled to equal weights, or moved by Markov chains."""

import math
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.progress import Progress, silent
from boltzport.ensembles.numbers import Frames, Numbers, to_numpy
from boltzport.ensembles.refine import IndependenceMetropolis, Refine
from boltzport.ensembles.resample import systematic_counts
from boltzport.ensembles.spool import Spool
from boltzport.flows import Flow, draw
from boltzport.targets import CountedTarget, Purpose

if TYPE_CHECKING:
    from boltzport.ensembles.chain import ChainSummary


class Mode(StrEnum):
    """Kind of frames.

    Weighted: draws with their weights. Resampled: frames of equal weight, some of them repeated. Refined: resampled,
    then moved by Markov chains that leave the target invariant. Chain: frames of Markov chains of trajectories and of
    proposals from the flow, without weights.
    """

    WEIGHTED = "weighted"
    RESAMPLED = "resampled"
    REFINED = "refined"
    CHAIN = "chain"


class Pool(NamedTuple):
    """Weighted draws that can be repeated.

    Attributes:
        state: State of the generator before the first draw.
        parts: Weights and energies, batch by batch.
        sums: Sum of the flow's log density over each batch, to check the repeated draws.
    """

    state: Tensor
    parts: list[Numbers]
    sums: list[float]

    @property
    def log_weights(self) -> Float[np.ndarray, " draws"]:
        """Log-weights of all draws."""
        return np.concatenate([part.log_weights for part in self.parts])


Source = Callable[[int], Iterator[Frames]]
"""Draws a number of weighted frames, batch by batch, in another way than from a flow alone."""


class Stream(NamedTuple):
    """Frames in batches.

    Attributes:
        frames: The batches.
        log_weights: Log-weights of all draws that the frames are chosen from; None if the frames are the draws.
        notes: Notes for the user about how the frames are drawn, one line each.
        summary: Summary of the Markov chains that the frames come from, once they are drawn; None if they do not.
    """

    frames: Iterator[Frames]
    log_weights: Float[np.ndarray, " draws"] | None
    notes: tuple[str, ...] = ()
    summary: "Callable[[], ChainSummary] | None" = None


def open_stream(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    mode: Mode = Mode.WEIGHTED,
    draws: int | None = None,
    refine: Refine | None = None,
    source: Source | None = None,
    batch: int = 8192,
    progress: Progress = silent,
) -> Stream:
    """Draw frames of a flow.

    Args:
        flow: The flow.
        target: The target that its samples are weighted to.
        n: Number of frames.
        generator: Random generator, on the device of the flow.
        mode: Kind of frames.
        draws: Number of samples that resampled or refined frames are chosen from; n by default.
        refine: Markov kernel of refined frames; ten Metropolis proposals from the flow by default.
        source: Draws the weighted frames; by default they are drawn from the flow. Resampled frames of a source are
            chosen from a temporary file.
        batch: Batch size.
        progress: Progress callback, called after each weighted batch.

    Raises:
        InputError: A number is not positive.
        RunError: No draw has a finite weight.
    """
    if mode is Mode.CHAIN:
        raise InputError("open_stream has no Markov chains; use open_chains")
    draws = n if draws is None or mode is Mode.WEIGHTED else draws
    if min(n, draws, batch) < 1:
        raise InputError(f"expected a positive number of frames, draws and batch, got {n}, {draws} and {batch}")
    if mode is Mode.WEIGHTED:
        if source is not None:
            return Stream(source(n), None)
        drawn = weighted(flow, target, n, generator=generator, batch=batch, split=True)
        return Stream((part for part, _ in drawn), None)
    if source is not None:
        spool = Spool(flow.dimension, flow.dtype, flow.device)
        for part in source(draws):
            spool.add(part)
            progress("weights", len(spool), draws)
        log_weights = spool.log_weights
        found = spool.chosen(systematic_counts(log_weights, n, generator=generator), batch=batch)
    else:
        pool = weigh(flow, target, draws, generator=generator, batch=batch, progress=progress)
        log_weights = pool.log_weights
        found = chosen(flow, pool, systematic_counts(log_weights, n, generator=generator), batch=batch)
    if mode is Mode.REFINED:
        found = refined(found, refine or IndependenceMetropolis(flow, target), target, generator=generator)
    return Stream(found, log_weights)


def weighted(
    flow: Flow, target: CountedTarget, n: int, *, generator: torch.Generator, batch: int, split: bool = False
) -> Iterator[tuple[Frames, float]]:
    """Batches of draws, each with the sum of its log densities with respect to the coordinates."""
    done = 0
    for drawn in draw(flow, target, n, batch=batch, generator=generator, purpose=Purpose.EVALUATION, split=split):
        size = len(drawn.log_q)
        numbers = Numbers(
            to_numpy(drawn.log_weights), to_numpy(-drawn.log_p), to_numpy(drawn.own_log_q), np.arange(done, done + size)
        )
        done += size
        yield Frames(drawn.coordinates, numbers), float(drawn.log_q.double().sum())


def weigh(
    flow: Flow, target: CountedTarget, draws: int, *, generator: torch.Generator, batch: int, progress: Progress
) -> Pool:
    """The first of two passes: compute the weights of all draws without keeping their coordinates."""
    pool = Pool(generator.get_state(), [], [])
    for frames, total in weighted(flow, target, draws, generator=generator, batch=batch):
        pool.parts.append(frames.numbers)
        pool.sums.append(total)
        progress("weights", int(frames.numbers.draw[-1]) + 1, draws)
    return pool


def chosen(flow: Flow, pool: Pool, counts: Int[np.ndarray, " draws"], *, batch: int) -> Iterator[Frames]:
    """The second pass: repeat the draws from the stored state of the generator, with copies by their counts.

    Raises:
        RunError: The flow does not repeat the draws.
    """
    generator = torch.Generator(flow.device)
    generator.set_state(pool.state)
    for part, total in zip(pool.parts, pool.sums, strict=True):
        with torch.no_grad():
            coordinates, log_q = flow.sample_and_log_prob(len(part.draw), generator=generator)
        if not math.isclose(float(log_q.double().sum()), total, rel_tol=1e-6, abs_tol=1e-3):
            raise RunError("the flow did not repeat its samples; did its parameters change in between?")
        taken = np.repeat(np.arange(len(part.draw)), counts[part.draw])
        # One draw may carry nearly all of the weight: its copies are split into batches too.
        for start in range(0, len(taken), batch):
            rows = taken[start : start + batch]
            numbers = Numbers(np.zeros(len(rows)), part.reduced_energy[rows], part.log_q[rows], part.draw[rows])
            yield Frames(coordinates[torch.from_numpy(rows).to(coordinates.device)], numbers)


def refined(
    frames: Iterator[Frames], refine: Refine, target: CountedTarget, *, generator: torch.Generator
) -> Iterator[Frames]:
    """Frames moved by a Markov kernel, with new energies; the density of the flow is not known there."""
    for part in frames:
        with torch.no_grad():
            moved = refine(part.coordinates, generator=generator)
            log_p, _ = target.evaluate(moved, Purpose.EVALUATION)
        unknown = np.full(len(moved), np.nan)
        yield Frames(moved, part.numbers._replace(reduced_energy=to_numpy(-log_p), log_q=unknown))
