"""Ctrl-C as a request to stop, so that a long computation can end in good order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequest:
    """Whether the user asked to stop; the computation checks it between steps."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_on_interrupt() -> Iterator[StopRequest]:
    """The first Ctrl-C requests a stop, a second one interrupts as usual."""
    request = StopRequest()

    def ask(number: int, frame: FrameType | None) -> None:
        if request.asked:
            signal.default_int_handler(number, frame)
        request.asked = True

    if threading.current_thread() is not threading.main_thread():
        # Only the main thread receives signals.
        yield request
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield request
    finally:
        signal.signal(signal.SIGINT, before)
