"""Times measured side by side: contenders take turns, so that a busy moment of the machine hits them all."""

import time
from collections.abc import Callable, Mapping


def side_by_side(contenders: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, float]:
    """Least seconds of each contender's call over rounds in which they take turns.

    Each is called once before, to warm up. The least time is the one with the fewest interruptions.

    Args:
        contenders: Calls to be timed, by name.
        rounds: How often each is timed.
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
