"""How work that takes long tells how far it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Is told the name of a stage, how much of it is done and how much there is."""


def silent(_stage: str, _done: int, _total: int) -> None:
    """No progress is shown."""
