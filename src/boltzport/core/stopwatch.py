"""Timing by stage, and side by side: contenders take turns, so that a busy moment affects all of them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager


def side_by_side(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Shortest time of each contender in seconds, over rounds in which they take turns.

    Each is called once before, to warm up. The shortest time is the one with the fewest interruptions.

    Args:
        contenders: Functions to time, by name.
        rounds: Number of timings of each.
    """
    for call in contenders.values():
        call()
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


class Timing:
    """Seconds by stage.

    Attributes:
        seconds: Time of each stage in seconds, by name, in the order in which the stages began.
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
