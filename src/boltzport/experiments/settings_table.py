"""The settings of a method and of the flows, with default, type, range and meaning, for people."""

import dataclasses
import re
import textwrap
import typing
from collections.abc import Iterator
from typing import Any, NamedTuple

from boltzport.core.errors import InputError
from boltzport.core.preset import Preset
from boltzport.experiments.build import check_name, kind_of
from boltzport.experiments.request import full_name
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
        range: Range of its numbers, in words; empty if it has none.
        meaning: Its meaning.
        part: `method`, or `flow=NAME` for a size of that kind of flow.
    """

    key: str
    value: Any
    kind: str
    range: str
    meaning: str
    part: str


def settings_of(method: str, *, preset: Preset = Preset.LAPTOP, system: str = "alanine-dipeptide") -> list[Setting]:
    """The settings of a method and of every kind of flow, with the values of a preset for a system.

    Raises:
        InputError: There is no such method or system, or the preset does not know the system.

    Example:
        >>> next(one for one in settings_of("cmt") if one.key == "trust_region").kind
        'a number'
        >>> next(one for one in settings_of("cmt") if one.key == "anneal").range
        '0.01 to 1'
    """
    method_entry(method)
    atoms = None
    if kind_of(system) == "molecule":
        from boltzport.molecules import count_atoms

        check_name(system)
        system = full_name(system)
        atoms = count_atoms(system)
    made = recipe(system, preset, method, atoms=atoms)
    found = list(_settings(made.methods[made.kind], "method"))
    for name in FLOWS:
        found += _settings(made.flows[name], f"flow={name}")
    return found


def _settings(config: Any, part: str) -> Iterator[Setting]:
    meanings = _meanings(type(config))
    hints = typing.get_type_hints(type(config))
    prefix = "" if part == "method" else "flow."
    for field in dataclasses.fields(config):
        yield Setting(
            key=prefix + field.name,
            value=getattr(config, field.name),
            kind=describe(hints[field.name]),
            range=_range(config, field.name, hints[field.name]),
            meaning=meanings.get(field.name, ""),
            part=part,
        )


def _range(config: Any, name: str, hint: Any) -> str:
    """The range that a config checks, in the words of its error for -1, which no setting allows."""
    kinds = {hint, *typing.get_args(hint)}
    if not kinds & {int, float}:
        return ""
    value = -1.0 if float in kinds else -1
    try:
        dataclasses.replace(config, **{name: (value,) if typing.get_origin(hint) is tuple else value})
    except InputError as error:
        found = re.match(rf"{name}: expected (.*), got", str(error))
        return found[1] if found else ""
    return ""


def _meanings(kind: type) -> dict[str, str]:
    """Meaning of each field, from the docstring's list of attributes."""
    text = textwrap.dedent(kind.__doc__ or "")
    _, _, listed = text.partition("Attributes:")
    return {
        found[1]: " ".join(found[2].split()) for found in re.finditer(r"^ +(\w+): ((?:.|\n(?! +\w+: ))*)", listed, re.M)
    }
