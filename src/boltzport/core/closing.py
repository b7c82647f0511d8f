"""Context managers that end what an object has started, such as processes."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TypeVar, final

C = TypeVar("C", bound="Closing")


class Closing(ABC):
    """An object that is closed at the end of its `with` block.

    Example:
        >>> class Door(Closing):
        ...     def close(self) -> None:
        ...         print("closed")
        >>> with Door() as door:
        ...     pass
        closed
    """

    @abstractmethod
    def close(self) -> None:
        """End what was started."""

    @final
    def __enter__(self: C) -> C:
        return self

    @final
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
