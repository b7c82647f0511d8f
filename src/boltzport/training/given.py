"""Settings that record which fields were given, so that a preset can supply the others."""

from dataclasses import replace
from typing import Any, TypeVar

S = TypeVar("S", bound="Settings")


class Settings:
    """Base class of the frozen, keyword-only dataclasses of settings.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True, kw_only=True)
        ... class Size(Settings):
        ...     height: int = 1
        ...     width: int = 1
        >>> Size(height=1).over(Size(height=5, width=7))
        Size(height=1, width=7)
    """

    _given: frozenset[str]

    def __new__(cls: type[S], **settings: Any) -> S:
        """Record the names of the given settings."""
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(settings))
        return made

    def over(self: S, preset: S) -> S:
        """Return the settings of a preset, with those given here replaced."""
        return replace(preset, **{name: getattr(self, name) for name in self._given})  # type: ignore[type-var]
