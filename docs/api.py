"""Writes docs/api.md, the reference of every public name, from the docstrings: `make docs`."""

import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import boltzport

PAGE = Path(__file__).with_name("api.md")
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Warns", "Example")
WIDTH = 90
"""Signs of a signature that go in one line."""
ORDER = {
    "The way from a molecule to an ensemble": (
        "Molecule",
        "train",
        "load",
        "mix",
        "Model",
        "Ensemble",
        "WeightsWarning",
    ),
    "What was found": ("Reference", "Results", "Estimate"),
    "Energies": (
        "Energy",
        "ForceField",
        "OpenMMEnergy",
        "CallableEnergy",
        "energies",
        "energies.ASE",
        "energies.XTB",
        "energies.ExpensiveEnergy",
    ),
    "Other targets": ("Density",),
    "Methods": ("CMT", "ForwardKL", "ReverseKL", "FAB", "TABG"),
    "Flows": ("Molecular", "Couplings"),
}
"""Every public name, by what it is for."""


def page() -> str:
    """The whole page."""
    lines = [
        "# API reference",
        "",
        "Every public name of `import boltzport as bp`. All of them work in memory. `make docs` writes this page.",
        "",
    ]
    for heading, names in ORDER.items():
        lines += [f"## {heading}", ""]
        for name in names:
            lines += entry(name)
    return "\n".join(lines).rstrip() + "\n"


def entry(name: str) -> Iterator[str]:
    """A public name, with its methods where it is a class."""
    found = attrgetter(name)(boltzport)
    yield from (f"### bp.{name}", "")
    if not inspect.ismodule(found) and not (
        inspect.isclass(found) and (issubclass(found, Warning) or getattr(found, "_is_protocol", False))
    ):
        yield from ("```python", f"bp.{name}{signature(found)}", "```", "")
    yield from described(found)
    if inspect.isclass(found):
        for key, member in members(found):
            yield from member_entry(name, key, member)


def members(found: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class, in the order of its source; then those of an abstract energy's."""
    inherited = [base for base in found.__mro__[1:] if base.__module__.startswith("boltzport.energies")]
    for key, member in (item for base in (found, *inherited) for item in vars(base).items()):
        described = isinstance(member, classmethod | staticmethod | property | cached_property)
        if (described or inspect.isfunction(member)) and not key.startswith("_"):
            yield key, member


def member_entry(name: str, key: str, member: Any) -> Iterator[str]:
    """A method or a property of a class."""
    if isinstance(member, property | cached_property):
        text = inspect.getdoc(member.fget if isinstance(member, property) else member.func) or ""
        yield from (f"**`{name}.{key}`** — {' '.join(text.split(chr(10) + chr(10))[0].split())}", "")
        return
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    yield from (f"#### {name}.{key}", "", "```python", f"{name}.{key}{signature(function)}", "```", "")
    yield from described(function)


def signature(found: Any) -> str:
    """Arguments as a user writes them: without self, annotations as they are in the source."""
    try:
        known = inspect.signature(found)
    except ValueError:
        return "(...)"
    parameters = [p for p in known.parameters.values() if p.name not in ("self", "cls")]
    text = str(known.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<(\w+)\.\w+: ('\w+')>", r"\2", text)
    text = re.sub(r"<function (\w+) at 0x\w+>", r"\1", text)
    packages = "boltzport|collections|jaxtyping|numpy|openmm|pathlib|torch|typing"
    text = re.sub(rf"\b(?:{packages})\.(?:\w+\.)*(?=\w)", "", text)
    return text if len(text) < WIDTH else _wrapped(text)


def _wrapped(text: str) -> str:
    """A long signature with one argument a line."""
    depth, lines = 0, [""]
    for sign in text[1:-1]:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            lines.append("")
        else:
            lines[-1] += sign
    return "(\n" + "".join(f"    {line.strip()},\n" for line in lines) + ")"


def described(found: Any) -> Iterator[str]:
    """A docstring as Markdown."""
    text = inspect.getdoc(found) or ""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):$", text, flags=re.MULTILINE)
    yield from (parts[0].strip(), "")
    for heading, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = inspect.cleandoc(body).splitlines()
        if heading == "Example":
            yield from ("```python", *lines, "```", "")
            continue
        yield from (f"*{heading}*", "")
        yield from items(lines)
        yield ""


def items(lines: list[str]) -> Iterator[str]:
    """The entries of a section as a list."""
    entries: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            entries.append(line)
        elif line and entries:
            entries[-1] += f" {line.strip()}"
    for line in entries:
        name, separator, rest = line.partition(": ")
        yield f"- `{name}`: {rest}" if separator and re.fullmatch(r"[\w*, ]+", name) else f"- {line}"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE}\n")
