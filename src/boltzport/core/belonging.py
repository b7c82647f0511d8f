"""Which frames a file of weights belongs to: their name and checksum, stored with the weights."""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.core.arrays import read_arrays
from boltzport.core.errors import InputError

SUFFIX = ".weights.npz"
"""Suffix of the weights of frames, in place of that of the frames."""
_AGAIN = "write it again, or move it away"


class Belonging(NamedTuple):
    """Name and checksum of a file of frames; empty for weights of an earlier version."""

    frames: str
    sha256: str


def belonging_of(frames: Path) -> dict[str, np.ndarray]:
    """Arrays that a file of weights stores about its frames."""
    return {"frames": np.array(frames.name), "frames_sha256": np.array(checksum(frames))}


def check_new(path: Path, beside: tuple[Path, ...], *, overwrite: bool) -> None:
    """Check that writing frames and the files beside them destroys nothing.

    Args:
        path: File of the frames.
        beside: Files that are written beside them.
        overwrite: Whether earlier files of these names may be replaced.

    Raises:
        InputError: A file exists, or belongs to other frames.
    """
    table = path.with_suffix(SUFFIX)
    if table in beside and table.is_file():
        owner = read_belonging(table).frames
        if owner and owner != path.name and (path.parent / owner).exists():
            raise InputError(
                f"{table} has the weights of {owner}, which would be lost; choose another name than {path.stem}, or "
                f"delete {owner} first"
            )
    existing = [file for file in (path, *beside) if file.exists()]
    if existing and not overwrite:
        raise InputError(f"{existing[0]} exists; choose another name, or overwrite it with --force")


def read_belonging(table: Path) -> Belonging:
    """Which frames a file of weights belongs to.

    Raises:
        InputError: It cannot be read.
    """
    arrays = read_arrays(table, what=_AGAIN)
    return Belonging(*(str(arrays[key]) if key in arrays else "" for key in ("frames", "frames_sha256")))


def weights_beside(frames: Path) -> Float[np.ndarray, " frames"] | None:
    """The weights that `boltzport sample` wrote beside frames; None if there are none.

    Raises:
        InputError: They cannot be read, or belong to other frames.
    """
    table = frames.with_suffix(SUFFIX)
    if not table.is_file():
        return None
    known = read_belonging(table)
    if known.frames and (known.frames != frames.name or known.sha256 != checksum(frames)):
        raise InputError(
            f"{table} has the weights of other frames ({known.frames}) than {frames.name}, or these were changed; "
            "write them again, or move the weights away to use equal ones"
        )
    found = read_arrays(table, what=_AGAIN).get("weights")
    if found is None or found.dtype.kind not in "fiu":
        raise InputError(f"{table} has no weights; {_AGAIN}")
    weights: np.ndarray = found.astype(np.float64)
    if weights.ndim != 1 or not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise InputError(f"{table}: expected finite weights that are not negative; {_AGAIN}")
    weights /= weights.mean()
    return weights


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
