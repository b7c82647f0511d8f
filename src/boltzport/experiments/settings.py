"""Settings as text: `key=value` on the command line."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from boltzport.core.errors import InputError


def with_settings(
    parts: dict[str, Any], assignments: Iterable[str], *, others: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Replace some fields of frozen dataclasses.

    A key is the name of a field, or `part.field` if two parts have a field of that name.

    Args:
        parts: Dataclasses by name.
        assignments: Settings as `key=value`.
        others: Dataclasses that were not chosen, by the setting that would choose them.

    Raises:
        InputError: A key is unknown (the message names the nearest), or a value has the wrong type or range.
    """
    for assignment in assignments:
        key, separator, text = assignment.partition("=")
        if not separator:
            raise InputError(f"--set {assignment}: expected key=value, as in --set {_keys(parts)[0]}=...")
        part, field = _find(parts, key.strip(), others or {})
        hint = typing.get_type_hints(type(parts[part]))[field]
        value = _parse(text.strip(), hint, key)
        try:
            changed = dataclasses.replace(parts[part], **{field: value})
        except InputError as error:
            raise InputError(f"--set {assignment}: {error}") from error
        parts = parts | {part: changed}
    return parts


def _keys(parts: dict[str, Any]) -> list[str]:
    return [name for part in parts.values() for name in _names(part)]


def _names(part: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(part)]


def _find(parts: dict[str, Any], key: str, others: Mapping[str, Any]) -> tuple[str, str]:
    prefix, _, name = key.rpartition(".")
    owners = [part for part, config in parts.items() if prefix in ("", part) and name in _names(config)]
    if len(owners) == 1:
        return owners[0], name
    if owners:
        choices = " or ".join(f"{owner}.{name}" for owner in owners)
        raise InputError(f"--set {key}: ambiguous; expected {choices}")
    elsewhere = [choice for choice, config in others.items() if name in _names(config)]
    if elsewhere:
        raise InputError(f"--set {key}: this setting exists only with --set {' or '.join(elsewhere)}")
    nearest = difflib.get_close_matches(name, _keys(parts), n=1, cutoff=0.0)
    raise InputError(f"--set {key}: there is no such setting; did you mean {nearest[0]}?")


def _parse(text: str, hint: Any, key: str) -> Any:
    """Parse a value of a type."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            try:
                return _parse(text, option, key)
            except InputError:
                continue
        raise InputError(f"--set {key}: expected {' or '.join(describe(option) for option in arguments)}, got {text}")
    try:
        if origin is typing.Literal:
            if text not in arguments:
                raise ValueError
            return text
        if origin is tuple:
            items = (item.strip() for item in text.strip("()[]").split(","))
            return tuple(_parse(item, arguments[0], key) for item in items if item)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return hint(text)
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        if hint is int:
            number = float(text)
            if number != int(number):
                raise ValueError
            return int(number)
        return hint(text)
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"--set {key}: expected {describe(hint)}, got {text}") from None


def describe(hint: Any) -> str:
    """What values a type takes, in words."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(describe(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(str(option) for option in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"{describe(typing.get_args(hint)[0])}s joined by commas"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " or ".join(str(member.value) for member in hint)
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}.get(hint, str(hint))
