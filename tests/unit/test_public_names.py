"""Every public name is documented: a docstring with an example, which runs as a doctest, and a page that is true."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import boltzport as bp

DOCS = Path(__file__).parents[2] / "docs"
NAMES = [name for name in bp.__all__ if not name.startswith("_")]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api", DOCS / "api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", NAMES)
def test_it_has_an_example(name: str) -> None:
    assert ">>> " in (getattr(bp, name).__doc__ or ""), f"bp.{name} needs an example in its docstring"


def test_the_reference_has_every_name_once() -> None:
    listed = [name for names in script().ORDER.values() for name in names]
    assert len(set(listed)) == len(listed)
    assert sorted(name for name in listed if "." not in name) == sorted(NAMES)
    assert all(name.partition(".")[0] in NAMES for name in listed)


def test_the_reference_is_what_the_docstrings_say() -> None:
    assert (DOCS / "api.md").read_text() == script().page(), "docs/api.md is out of date: make docs"
