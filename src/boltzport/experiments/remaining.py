"""Estimate of the remaining time of a training from its finished steps."""

import statistics
from typing import NamedTuple

Stages = frozenset[tuple[str, int]]
"""Names and sizes of the stages of a step; steps with the same stages are of one kind."""
RECENT = 7
"""Number of recent steps of a kind that the estimate uses."""


class _Pace(NamedTuple):
    """Progress of a stage: the work done at its first and its last report, and the times of these in seconds."""

    first: int
    since: float
    last: int
    until: float


class Remaining:
    """Estimate of the time of future steps: the median of recent steps of the same kind as the last one.

    The first step of a kind includes compilation. It counts only until there is another, without what the pace of its
    stages does not explain. A median is not affected by
    single steps that are retried.
    """

    def __init__(self) -> None:
        self._stages: set[tuple[str, int]] = set()
        self._seconds: dict[Stages, list[float]] = {}
        self._typical = 0.0
        self._pace: dict[tuple[str, int], _Pace] = {}

    def stage(self, name: str, total: int, *, done: int = 0, at: float = 0.0) -> None:
        """Record a stage of the current step.

        Args:
            name: Name of the stage.
            total: Its total work.
            done: Work done.
            at: Present time in seconds.
        """
        self._stages.add((name, total))
        pace = self._pace.setdefault((name, total), _Pace(done, at, done, at))
        # What is not yet begun may still wait for a compilation.
        self._pace[name, total] = _Pace(done, at, done, at) if pace.first == 0 else pace._replace(last=done, until=at)

    def step(self, seconds: float) -> None:
        """Record the time of a finished step in seconds."""
        seen = self._seconds.setdefault(frozenset(self._stages), [])
        net = self._net(whole=False)
        self._stages.clear()
        self._pace.clear()
        seen.append(min(seconds, net) if not seen and net is not None else seconds)
        self._typical = statistics.median(seen[1:][-RECENT:] or seen)

    @property
    def net(self) -> float | None:
        """Time of the current step in seconds without its start-up, by the pace of its stages; None if not known."""
        return self._net(whole=True)

    def _net(self, *, whole: bool) -> float | None:
        """Time of a step by the pace of its stages: of the whole stages, or of what was done of them."""
        known = [
            (pace.until - pace.since) / (pace.last - pace.first) * (total if whole else pace.last)
            for (_, total), pace in self._pace.items()
            if pace.last > pace.first
        ]
        return sum(known) if known else None

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
