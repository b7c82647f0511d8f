"""Streams of frames: draws of a flow with their weights, chosen to equal weights, moved by Markov chains."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.ensemble.refine import Refine
from boltzport.errors import RunError
from boltzport.flow import Flow
from boltzport.targets import CountedTarget, Purpose

Progress = Callable[[int, int], None]
"""Takes what is done and what there is to do."""


class Numbers(NamedTuple):
    """What is kept of every frame.

    Attributes:
        log_weights: Minus the reduced energy, minus log_q; minus infinity where the evaluation failed.
        reduced_energy: Minus log_p of the target: in kT, regularised, for a molecule.
        log_q: Log density of the flow with respect to the target's own measure; NaN where it is not known.
        draw: Which draw of the flow it is, or started from.
    """

    log_weights: Float[np.ndarray, " frames"]
    reduced_energy: Float[np.ndarray, " frames"]
    log_q: Float[np.ndarray, " frames"]
    draw: Int[np.ndarray, " frames"]


class Frames(NamedTuple):
    """Some frames, and their numbers."""

    coordinates: Float[Tensor, "frames dimensions"]
    numbers: Numbers


class Pool(NamedTuple):
    """Weighted draws that can be made again.

    Attributes:
        state: State of the generator before the first draw.
        parts: The numbers, batch by batch.
        sums: Sum of the flow's log density over each batch, by which a draw is known again.
    """

    state: Tensor
    parts: list[Numbers]
    sums: list[float]

    @property
    def log_weights(self) -> Float[np.ndarray, " draws"]:
        """Of all draws."""
        return np.concatenate([part.log_weights for part in self.parts])


def weighted(
    flow: Flow, target: CountedTarget, n: int, *, generator: torch.Generator, batch: int
) -> Iterator[tuple[Frames, float]]:
    """Draw after draw, in batches, each with the sum of its log densities in the coordinates."""
    for start in range(0, n, batch):
        coordinates, log_q = flow.sample_and_log_prob(min(batch, n - start), generator=generator)
        log_p, log_volume = target.evaluate(coordinates, Purpose.EVALUATION)
        own_log_q = log_q.double() - log_volume
        log_weights = log_p - own_log_q
        numbers = Numbers(
            to_numpy(torch.where(log_weights.isfinite(), log_weights, -torch.inf)),
            to_numpy(-log_p),
            to_numpy(own_log_q),
            np.arange(start, start + len(coordinates)),
        )
        yield Frames(coordinates, numbers), float(log_q.double().sum())


def weigh(
    flow: Flow, target: CountedTarget, draws: int, *, generator: torch.Generator, batch: int, progress: Progress
) -> Pool:
    """The first of two passes: the weights of all draws, and none of their coordinates."""
    pool = Pool(generator.get_state(), [], [])
    for frames, total in weighted(flow, target, draws, generator=generator, batch=batch):
        pool.parts.append(frames.numbers)
        pool.sums.append(total)
        progress(int(frames.numbers.draw[-1]) + 1, draws)
    return pool


def chosen(flow: Flow, pool: Pool, counts: Int[np.ndarray, " draws"], *, batch: int) -> Iterator[Frames]:
    """The second pass: the same draws from the stored state of the generator, each as often as it is taken.

    Raises:
        RunError: The flow does not draw the same again.
    """
    generator = torch.Generator(flow.device)
    generator.set_state(pool.state)
    for part, total in zip(pool.parts, pool.sums, strict=True):
        coordinates, log_q = flow.sample_and_log_prob(len(part.draw), generator=generator)
        if not math.isclose(float(log_q.double().sum()), total, rel_tol=1e-6, abs_tol=1e-3):
            raise RunError("the flow did not draw the same samples twice; did its parameters change meanwhile?")
        taken = np.repeat(np.arange(len(part.draw)), counts[part.draw])
        # One draw may carry nearly all weight: its copies come in batches too.
        for start in range(0, len(taken), batch):
            rows = taken[start : start + batch]
            numbers = Numbers(np.zeros(len(rows)), part.reduced_energy[rows], part.log_q[rows], part.draw[rows])
            yield Frames(coordinates[torch.from_numpy(rows).to(coordinates.device)], numbers)


def refined(
    frames: Iterator[Frames], refine: Refine, target: CountedTarget, *, generator: torch.Generator
) -> Iterator[Frames]:
    """Frames moved by a Markov kernel, energies evaluated anew; the density of the flow is not theirs any more."""
    for part in frames:
        moved = refine(part.coordinates, generator=generator)
        log_p, _ = target.evaluate(moved, Purpose.EVALUATION)
        unknown = np.full(len(moved), np.nan)
        yield Frames(moved, part.numbers._replace(reduced_energy=to_numpy(-log_p), log_q=unknown))


def to_numpy(values: Tensor) -> np.ndarray:
    """A tensor on any device as an array."""
    found: np.ndarray = values.detach().cpu().numpy()
    return found
