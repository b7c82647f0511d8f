"""How long the rest of a training takes, by the steps that are done."""

import statistics

Stages = frozenset[tuple[str, int]]
"""Name and size of what a step consists of; steps that consist of the same are of one kind."""
RECENT = 7
"""How many of the last steps of a kind tell how long the next ones take."""


class Remaining:
    """Time of the steps to come: the median of the recent steps of the kind of the last one.

    The first step of a kind compiles; it counts only as long as there is no other. Single steps that are tried several
    times do not move a median.
    """

    def __init__(self) -> None:
        self._stages: set[tuple[str, int]] = set()
        self._seconds: dict[Stages, list[float]] = {}
        self._typical = 0.0

    def stage(self, name: str, total: int) -> None:
        """A part of the step that is under way."""
        self._stages.add((name, total))

    def step(self, seconds: float) -> None:
        """A step is done."""
        seen = self._seconds.setdefault(frozenset(self._stages), [])
        self._stages.clear()
        seen.append(seconds)
        self._typical = statistics.median(seen[1:][-RECENT:] or seen)

    def left(self, steps: int) -> float:
        """Seconds that so many steps will take.

        Example:
            >>> remaining = Remaining()
            >>> for seconds in (30.0, 2.0, 2.5, 9.0):
            ...     remaining.step(seconds)
            >>> remaining.left(10)
            25.0
        """
        return steps * self._typical
