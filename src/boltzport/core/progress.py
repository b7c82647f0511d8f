"""Progress callbacks of long computations."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""A function of the name of a stage, the work done and the total work."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """Show no progress."""
