"""The settings of a method and of the flows, with default, type and meaning, for people."""

import dataclasses
import re
import textwrap
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from boltzport.core.preset import Preset
from boltzport.experiments.settings import describe
from boltzport.flows import FLOWS
from boltzport.training.methods import method_entry
from boltzport.training.presets import recipe


class Setting(NamedTuple):
    """One setting.

    Attributes:
        key: Key of `--set`.
        value: Value that a preset gives it.
        kind: What values it takes, in words.
        meaning: Its meaning.
        part: `method`, or `flow=NAME` for a size of that kind of flow.
    """

    key: str
    value: Any
    kind: str
    meaning: str
    part: str


def settings_of(method: str, *, preset: Preset = Preset.LAPTOP, system: str = "alanine-dipeptide") -> list[Setting]:
    """The settings of a method and of every kind of flow, with the values of a preset for a system.

    Raises:
        InputError: There is no such method, or the preset does not know the system.

    Example:
        >>> next(one for one in settings_of("cmt") if one.key == "trust_region").kind
        'a number'
    """
    method_entry(method)
    made = recipe(system, preset, method)
    found = list(_settings(made.methods[made.kind], "method"))
    for name in FLOWS:
        found += _settings(made.flows[name], f"flow={name}")
    return found


def _settings(config: Any, part: str) -> Iterator[Setting]:
    meanings = _meanings(type(config))
    hints = typing.get_type_hints(type(config))
    prefix = "" if part == "method" else "flow."
    for field in dataclasses.fields(config):
        meaning = meanings.get(field.name, "")
        yield Setting(prefix + field.name, getattr(config, field.name), describe(hints[field.name]), meaning, part)


def _meanings(kind: type) -> dict[str, str]:
    """Meaning of each field, from the docstring's list of attributes."""
    text = textwrap.dedent(kind.__doc__ or "")
    _, _, listed = text.partition("Attributes:")
    return {
        found[1]: " ".join(found[2].split()) for found in re.finditer(r"^ +(\w+): ((?:.|\n(?! +\w+: ))*)", listed, re.M)
    }
