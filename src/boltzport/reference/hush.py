"""Keeping C libraries off the standard output, which belongs to our JSON."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDOUT = 1


@contextmanager
def hushed() -> Iterator[None]:
    """Send what is written to the standard output to nowhere; MDTraj's reader of DCD files greets there from C."""
    sys.stdout.flush()
    kept, nowhere = os.dup(_STDOUT), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    try:
        yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(nowhere)
