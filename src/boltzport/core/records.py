"""Conversion of frozen dataclasses to the plain values of JSON and TOML, and back."""

import dataclasses
import types
import typing
from enum import Enum
from typing import Any, TypeVar

from boltzport.core.errors import InputError

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def member_of(kind: type[E], value: object, what: str) -> E:
    """The member of an enumeration with a given value.

    Args:
        kind: The enumeration.
        value: A member, or its value.
        what: Name of the argument, for the message.

    Raises:
        InputError: There is no such member; the message lists the members.

    Example:
        >>> from boltzport.core.preset import Preset
        >>> member_of(Preset, "quick", "preset")
        <Preset.QUICK: 'quick'>
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(member.value) for member in kind)
        raise InputError(f"{what}: expected {known}, got {value}") from None


def to_plain(record: Any) -> dict[str, Any]:
    """Fields of a dataclass: enumerations as their values, tuples as lists, without None, which TOML does not have.

    Example:
        >>> import dataclasses
        >>> Size = dataclasses.make_dataclass("Size", [("bins", int), ("hidden", tuple[int, ...])])
        >>> to_plain(Size(8, (64, 64)))
        {'bins': 8, 'hidden': [64, 64]}
        >>> from_plain(Size, {"bins": 8, "hidden": [64, 64]})
        Size(bins=8, hidden=(64, 64))
        >>> from_plain(Size, {"bins": 8, "hidden": [64, "x"]})
        Traceback (most recent call last):
        TypeError: hidden: expected tuple[int, ...], got [64, 'x']
    """
    found: dict[str, Any] = _plain(dataclasses.asdict(record))
    return found


def from_plain(kind: type[T], values: dict[str, Any]) -> T:
    """A dataclass from the output of `to_plain`.

    Raises:
        TypeError: A field is missing or unknown, or a value has another type.
        ValueError: An enumeration has no such value.
    """
    hints = typing.get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, value in values.items():
        hint = hints.get(name, Any)
        if isinstance(hint, type) and issubclass(hint, Enum):
            made[name] = hint(value)
        elif _fits(value, hint):
            made[name] = tuple(value) if isinstance(value, list) else value
        else:
            wanted = hint.__name__ if isinstance(hint, type) else hint
            raise TypeError(f"{name}: expected {wanted}, got {value!r}")
    return kind(**made)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a plain value is of a type; of unknown types, any is."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, option) for option in arguments)
    if origin is typing.Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(item, arguments[0]) for item in value)
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint in (bool, Any)
    if hint is float:
        return isinstance(value, int | float)
    return not isinstance(hint, type) or isinstance(value, hint)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value
