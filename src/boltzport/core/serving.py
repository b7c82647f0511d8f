"""Messages between a process and its workers, and the main loop of a worker.

This file imports neither torch nor the rest of the package: a worker starts in a fraction of a second and needs about
50 MB. A message is a pickled tuple preceded by its length; parent and worker take turns, so neither ever waits for the
other to read.
"""

import contextlib
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from typing import IO, Any, NamedTuple

import numpy as np

_HEADER = struct.Struct("<Q")
_HEARTBEAT = 1.0


class Evaluated(NamedTuple):
    """Results of some configurations.

    Attributes:
        energies: (batch,) in kJ/mol, NaN where the evaluation failed.
        forces: (batch, atoms, 3) in kJ/mol/nm, if requested.
        message: the first error, empty if there was none.
    """

    energies: np.ndarray
    forces: np.ndarray | None
    message: str


def send(stream: IO[bytes], message: tuple[Any, ...]) -> None:
    """Write a message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Any, ...]:
    """Read a message.

    Raises:
        EOFError: the other side is gone.
    """

    def exactly(count: int) -> bytes:
        data = stream.read(count)
        if len(data) != count:
            raise EOFError("the other process is gone")
        return data

    message: tuple[Any, ...] = pickle.loads(exactly(_HEADER.unpack(exactly(_HEADER.size))[0]))
    return message


def serve(make: Callable[..., Callable[..., Any]]) -> None:
    """Be a worker until the parent closes the pipe.

    Args:
        make: Called with the first message when the first task arrives; it returns what is called with each task.
            An exception of either is sent to the parent as its message.
    """
    # Ctrl-C goes to the whole process group; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Accidental output must not get into the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(make, requests, answers)
    # On exit, the interpreter would flush a broken pipe again.
    os._exit(0)


def _serve(make: Callable[..., Callable[..., Any]], requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every task with a result and an empty message, or with ``None`` and an error message."""
    setup = receive(requests)
    answer = None
    while True:
        task = receive(requests)
        try:
            answer = answer or make(*setup)
            found = answer(*task)
        except Exception as error:
            send(answers, (None, f"{type(error).__name__}: {error}"))
            continue
        send(answers, (found, ""))


def _leave_with_parent() -> None:
    """End this process soon after its parent, however the parent ended and whatever this process is doing."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_HEARTBEAT)
    os._exit(1)
