"""Silence C libraries on the standard output, which is reserved for our JSON."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_STDOUT = 1


@contextmanager
def hushed() -> Iterator[None]:
    """Discard everything written to the standard output: MDTraj's DCD reader prints there from C."""
    sys.stdout.flush()
    kept, nowhere = os.dup(_STDOUT), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    try:
        yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)
        os.close(nowhere)
