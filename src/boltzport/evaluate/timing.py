"""Where the time of an evaluation goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timing:
    """Seconds by stage.

    Attributes:
        seconds: By the name of the stage, in the order in which stages began.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of a block to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
