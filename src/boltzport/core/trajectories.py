"""Write trajectories with MDTraj, and notice that the disk is full."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from boltzport.core.hush import hushed


@contextmanager
def open_checked(
    path: Path, kind: Any, write: Callable[[Any, np.ndarray], None]
) -> Iterator[Callable[[np.ndarray], None]]:
    """Open a file of MDTraj to write frames, and raise an OSError if the disk is full.

    MDTraj raises a TypeError or a RuntimeError then, and nothing at all if it happens as the file is closed. So the
    frames are counted afterwards.

    Args:
        path: Output file.
        kind: MDTraj's class of the format, such as `DCDTrajectoryFile`.
        write: Writes frames to an open file of this class.
    """
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    written = 0

    def append(positions: np.ndarray) -> None:
        nonlocal written
        try:
            with hushed():
                write(file, positions)
        except (TypeError, RuntimeError) as error:
            raise full from error
        written += len(positions)

    with hushed():
        file = kind(str(path), "w")
    try:
        yield append
    finally:
        file.close()
    if written:
        try:
            with hushed(), kind(str(path)) as whole:
                found = len(whole)
                # The last one may be there in part.
                whole.seek(found - 1)
                whole.read(1)
        except (OSError, RuntimeError, LookupError) as error:
            raise full from error
        if found != written:
            raise full
