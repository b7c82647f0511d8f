"""Write frames, and the files needed to use them, without holding all frames in memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float

from boltzport.core.belonging import check_new
from boltzport.core.errors import InputError, RunError
from boltzport.core.interrupt import StopRequest
from boltzport.core.leftovers import remove_leftovers, temporary_name
from boltzport.core.progress import Progress, silent
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.ensembles.beside import files_beside, torsion_columns, write_beside
from boltzport.ensembles.frames import Append, check_suffix, open_array, open_frames, shorten_array
from boltzport.ensembles.numbers import Frames, Numbers, to_numpy
from boltzport.ensembles.resample import check_weights
from boltzport.ensembles.stream import Stream
from boltzport.molecules import Molecule
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget

if TYPE_CHECKING:
    from boltzport.ensembles.chain import ChainSummary

XTC_NOTE = (
    "XTC rounds positions to 0.001 nm, so energies computed from its frames are off by several kJ/mol: "
    "use the stored energies, or write DCD"
)


@dataclass(frozen=True, kw_only=True)
class WrittenEnsemble:
    """Summary of the written files.

    Attributes:
        files: Paths of the files, with the frames first.
        frames: Number of frames.
        distinct: Number of different draws of the flow among the frames.
        draws: Number of samples that were drawn and weighted.
        ess: Effective sample size of the draws as a fraction.
        log_z: Log of their mean weight.
        log_z_error: Standard error of `log_z`.
        failed: Number of draws whose energy could not be evaluated; they have weight zero.
        notes: Notes for the user about the files, one line each.
        chains: Summary of the Markov chains; None if the frames do not come from chains.
    """

    files: tuple[Path, ...]
    frames: int
    distinct: int
    draws: int
    ess: float
    log_z: float
    log_z_error: float
    failed: int
    notes: tuple[str, ...]
    chains: "ChainSummary | None" = None


def check_file(path: Path, target: Target | None, *, overwrite: bool = True) -> None:
    """Check that frames of a target can be written to a file, before they are drawn.

    Args:
        path: The file.
        target: The target; None if it is not open yet, for what can be said without it.
        overwrite: Whether earlier files of these names may be replaced.

    Raises:
        InputError: The format is unknown or does not fit the target, there is no such directory, or a file exists.
    """
    molecular = isinstance(target, BoltzmannTarget) or (target is None and path.suffix.lower() != ".npz")
    check_suffix(path, molecular=molecular)
    if not path.parent.is_dir():
        raise InputError(f"no such directory: {path.parent}; create it first")
    check_new(path, files_beside(path, molecular=molecular), overwrite=overwrite)


def write_frames(
    path: Path,
    stream: Stream,
    target: Target,
    n: int,
    *,
    progress: Progress = silent,
    stop: StopRequest | None = None,
) -> WrittenEnsemble:
    """Write n frames, and beside them their weights (`beside` describes the files).

    Files get their final names when all of them are complete; after a request to stop, with the frames so far.

    Args:
        path: Output file, with the suffix .xtc, .dcd, .pdb or .npz; only .npz for a target that is not a molecule.
        stream: The frames.
        target: Target of the frames.
        n: Number of frames.
        progress: Progress callback, called after each batch.
        stop: Stop request, checked after each batch.

    Raises:
        InputError: The format is unknown or does not fit the target.
        RunError: No draw has a finite weight, or the files cannot be written, for example because the disk is full.
    """
    check_file(path, target)
    try:
        return _written(path, stream, target, n, progress=progress, stop=stop or StopRequest())
    except ConnectionError:  # the pipe of an energy's process or of the output
        raise
    except OSError as error:
        raise RunError(f"{path} cannot be written: {error.strerror or error}; nothing was changed") from error


def _written(
    path: Path, stream: Stream, target: Target, n: int, *, progress: Progress, stop: StopRequest
) -> WrittenEnsemble:
    molecule = target.molecule if isinstance(target, BoltzmannTarget) else None
    remove_leftovers(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=temporary_name()) as folder:
        staged = Path(folder) / path.name
        with _open(staged, molecule, frames=n, dimension=len(target.layout)) as append:
            numbers, torsions = _write(stream.frames, append, target, n=n, progress=progress, stop=stop)
        written = len(numbers.draw)
        if written < n and path.suffix.lower() == ".npz":
            shorten_array(staged, written)
        log_weights = numbers.log_weights if stream.log_weights is None else stream.log_weights
        check_weights(log_weights)
        files = [staged, *write_beside(staged, numbers, torsions, molecule)]
        for file in files:
            os.replace(file, path.parent / file.name)
    log_z = log_mean(torch.from_numpy(log_weights))
    chains = None if stream.summary is None else stream.summary()
    said = stream.notes if chains is None else (*stream.notes, chains.message)
    return WrittenEnsemble(
        files=tuple(path.parent / file.name for file in files),
        frames=written,
        distinct=len(np.unique(numbers.draw)),
        draws=len(log_weights),
        ess=effective_fraction(torch.from_numpy(log_weights)),
        log_z=log_z.value,
        log_z_error=log_z.error,
        failed=int(np.isneginf(log_weights).sum()),
        chains=chains,
        notes=(*said, *((XTC_NOTE,) if path.suffix.lower() == ".xtc" else ()), *_interrupted(written, n)),
    )


def _interrupted(written: int, n: int) -> tuple[str, ...]:
    return (f"interrupted: the files hold the first {written} of {n} frames",) if written < n else ()


def _open(path: Path, molecule: Molecule | None, *, frames: int, dimension: int) -> AbstractContextManager[Append]:
    if molecule is not None:
        return open_frames(path, molecule, frames=frames)
    return open_array(path, "coordinates", shape=(frames, dimension))


@torch.no_grad()
def _write(
    stream: Iterator[Frames], append: Append, target: Target, *, n: int, progress: Progress, stop: StopRequest
) -> tuple[Numbers, Float[np.ndarray, "frames torsions"]]:
    """Write the frames, and return their weights and energies and their named torsions."""
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
        torsions.append(to_numpy(known)[:, places])
        done += len(coordinates)
        progress("frames", done, n)
        if stop.asked:
            break
    assert stop.asked or done == n
    return Numbers(*(np.concatenate(column) for column in zip(*kept, strict=True))), np.concatenate(torsions)
