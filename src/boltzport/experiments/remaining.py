"""Estimate of the remaining time of a training from its finished steps."""

import statistics

Stages = frozenset[tuple[str, int]]
"""Names and sizes of the stages of a step; steps with the same stages are of one kind."""
RECENT = 7
"""Number of recent steps of a kind that the estimate uses."""


class Remaining:
    """Estimate of the time of future steps: the median of recent steps of the same kind as the last one.

    The first step of a kind includes compilation; it counts only until there is another. A median is not affected by
    single steps that are retried.
    """

    def __init__(self) -> None:
        self._stages: set[tuple[str, int]] = set()
        self._seconds: dict[Stages, list[float]] = {}
        self._typical = 0.0

    def stage(self, name: str, total: int) -> None:
        """Record a stage of the current step."""
        self._stages.add((name, total))

    def step(self, seconds: float) -> None:
        """Record the time of a finished step in seconds."""
        seen = self._seconds.setdefault(frozenset(self._stages), [])
        self._stages.clear()
        seen.append(seconds)
        self._typical = statistics.median(seen[1:][-RECENT:] or seen)

    def left(self, steps: int) -> float:
        """Estimated time of a number of steps in seconds.

        Example:
            >>> remaining = Remaining()
            >>> for seconds in (30.0, 2.0, 2.5, 9.0):
            ...     remaining.step(seconds)
            >>> remaining.left(10)
            25.0
        """
        return steps * self._typical
