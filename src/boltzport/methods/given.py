"""Settings that remember which of them were given, so that the others can be a preset's."""

from dataclasses import replace
from typing import Any, TypeVar

S = TypeVar("S", bound="Settings")


class Settings:
    """Base of the frozen, keyword-only dataclasses of settings.

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
        """Note the names of the settings that are given."""
        made = super().__new__(cls)
        object.__setattr__(made, "_given", frozenset(settings))
        return made

    def over(self: S, preset: S) -> S:
        """The settings of a preset, with those that were given here in their place."""
        return replace(preset, **{name: getattr(self, name) for name in self._given})  # type: ignore[type-var]
