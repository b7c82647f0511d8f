"""Samples of a flow to a file, with what is needed to use them beside it; frames are never all in memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from boltzport.boltzmann import BoltzmannTarget
from boltzport.ensemble.beside import torsion_columns, write_beside
from boltzport.ensemble.draws import Frames, Numbers, Progress, chosen, refined, to_numpy, weigh, weighted
from boltzport.ensemble.frames import Append, check_suffix, open_array, open_frames
from boltzport.ensemble.refine import IndependenceMetropolis, Refine
from boltzport.ensemble.resample import check_weights, systematic_counts
from boltzport.errors import InputError, RunError
from boltzport.flow import Flow
from boltzport.molecule import Molecule
from boltzport.targets import CountedTarget, Target
from boltzport.weights import effective_fraction, log_mean

XTC_NOTE = (
    "XTC rounds positions to 0.001 nm, so energies computed from its frames are off by several kJ/mol: "
    "use the stored ones, or write DCD"
)


class Mode(StrEnum):
    """What the frames are."""

    WEIGHTED = "weighted"
    RESAMPLED = "resampled"
    REFINED = "refined"


@dataclass(frozen=True, kw_only=True)
class WrittenEnsemble:
    """What was written.

    Attributes:
        files: Frames first, then what lies beside them.
        frames: Number of frames.
        distinct: How many different draws of the flow they are, or started from.
        draws: Samples that were drawn and weighted.
        ess: Effective fraction of the draws.
        log_z: Log of their mean weight.
        failed: Draws whose energy could not be evaluated; they have weight zero.
        notes: One line each for what a user must know of the files.
    """

    files: tuple[Path, ...]
    frames: int
    distinct: int
    draws: int
    ess: float
    log_z: float
    failed: int
    notes: tuple[str, ...]


@torch.no_grad()
def write_ensemble(
    path: Path,
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    mode: Mode = Mode.WEIGHTED,
    draws: int | None = None,
    refine: Refine | None = None,
    batch: int = 8192,
    progress: Progress = lambda _done, _total: None,
) -> WrittenEnsemble:
    """Write n frames of a flow, and beside them their weights (`beside` says in which form).

    Nothing appears under its final name before all is written.

    Args:
        path: A file that ends in .xtc, .dcd, .pdb or .npz; .npz alone for a target that is not a molecule.
        flow: The flow.
        target: What its samples are weighted to.
        n: Number of frames.
        generator: Draws everything; on the device of the flow.
        mode: Weighted: the draws as they are. Resampled: frames of equal weight, some of them the same. Refined:
            resampled, then moved by Markov chains that leave the target unchanged.
        draws: How many samples the frames are chosen from when resampled or refined; n by default.
        refine: The Markov kernel; ten Metropolis proposals from the flow by default.
        batch: Frames in memory at once.
        progress: Told about every batch: of the weighing, then of the writing.

    Raises:
        InputError: A format that is not known or does not fit; numbers that are not positive.
        RunError: No draw has a finite weight.
    """
    molecule = target.target.molecule if isinstance(target.target, BoltzmannTarget) else None
    suffix = check_suffix(path, molecular=molecule is not None)
    draws = n if draws is None or mode is Mode.WEIGHTED else draws
    if min(n, draws, batch) < 1:
        raise InputError(f"expected a positive number of frames, draws and batch, got {n}, {draws} and {batch}")
    if not path.parent.is_dir():
        raise InputError(f"no such directory: {path.parent}; make it first")

    log_weights: Float[np.ndarray, " draws"] | None = None
    if mode is Mode.WEIGHTED:
        stream: Iterator[Frames] = (frames for frames, _ in weighted(flow, target, n, generator=generator, batch=batch))
    else:
        pool = weigh(flow, target, draws, generator=generator, batch=batch, progress=progress)
        log_weights = pool.log_weights
        stream = chosen(flow, pool, systematic_counts(log_weights, n, generator=generator), batch=batch)
    if mode is Mode.REFINED:
        stream = refined(stream, refine or IndependenceMetropolis(flow, target), target, generator=generator)

    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".boltzport-") as folder:
        staged = Path(folder) / path.name
        with _open(staged, molecule, frames=n, dimension=flow.dimension) as append:
            numbers, torsions = _write(stream, append, target.target, n=n, progress=progress)
        log_weights = numbers.log_weights if log_weights is None else log_weights
        check_weights(log_weights)
        files = [staged, *write_beside(staged, numbers, torsions, molecule)]
        for file in files:
            os.replace(file, path.parent / file.name)
    return WrittenEnsemble(
        files=tuple(path.parent / file.name for file in files),
        frames=n,
        distinct=len(np.unique(numbers.draw)),
        draws=draws,
        ess=effective_fraction(torch.from_numpy(log_weights)),
        log_z=log_mean(torch.from_numpy(log_weights)).value,
        failed=int(np.isneginf(log_weights).sum()),
        notes=(XTC_NOTE,) if suffix == ".xtc" else (),
    )


def _open(path: Path, molecule: Molecule | None, *, frames: int, dimension: int) -> AbstractContextManager[Append]:
    if molecule is not None:
        return open_frames(path, molecule, frames=frames)
    return open_array(path, "coordinates", shape=(frames, dimension))


def _write(
    stream: Iterator[Frames], append: Append, target: Target, *, n: int, progress: Progress
) -> tuple[Numbers, Float[np.ndarray, "frames torsions"]]:
    """Write the frames; what is left of them is their numbers and their named torsions."""
    molecular = target if isinstance(target, BoltzmannTarget) else None
    places = list(torsion_columns(molecular.molecule if molecular else None).values())
    kept: list[Numbers] = []
    torsions = []
    done = 0
    for coordinates, numbers in stream:
        written = coordinates if molecular is None else molecular.positions(coordinates)
        if not bool(written.isfinite().all()):
            raise RunError("the flow drew coordinates that are not finite; is its file damaged?")
        append(to_numpy(written))
        kept.append(numbers)
        known = coordinates if molecular is None else molecular.internal(coordinates)
        torsions.append(to_numpy(known[:, places]))
        done += len(coordinates)
        progress(done, n)
    assert done == n
    return Numbers(*(np.concatenate(column) for column in zip(*kept, strict=True))), np.concatenate(torsions)
