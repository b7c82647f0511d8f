"""What ARCHITECTURE names exists: modules in the packages of its tree, and the places that it says to touch."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import boltzport as bp

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "boltzport"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
MODULES = [path.with_suffix("").as_posix() for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"]
TREE = [line for line in TEXT.partition("## The tree")[2].splitlines() if re.match(r"\| `\w+` \|", line)]
PLACES = [line for line in TEXT.partition("## Where to add what")[2].splitlines() if line.startswith("| a")]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def is_there(name: str, folder: Path) -> bool:
    """Whether a name is a module or a package of a folder, or of one below it."""
    wanted = name.rstrip("/").removesuffix(".py")
    return any(path.endswith(f"/{wanted}") for path in MODULES if path.startswith(f"{folder.as_posix()}/"))


def test_the_tree_has_all_packages() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {quoted(line)[0] for line in TREE} == packages


@pytest.mark.parametrize("line", TREE, ids=lambda line: quoted(line)[0])
def test_modules_of_the_tree_exist(line: str) -> None:
    _, package, what, _, _ = line.split("|")
    (name,) = quoted(package)
    for word in quoted(what):
        here = is_there(word, SOURCE / name) or hasattr(bp, word)
        assert here or hasattr(import_module(f"boltzport.{name}"), word), f"ARCHITECTURE: {name} has no {word}"


@pytest.mark.parametrize("line", PLACES, ids=lambda line: line.split("|")[1].strip())
def test_what_is_touched_exists(line: str) -> None:
    texts = {path: path.read_text() for path in SOURCE.rglob("*.py")}
    for word in quoted(line.split("|")[2]):
        there = is_there(word, SOURCE) or hasattr(bp, word)
        assert there or any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts.values()), word


def test_a_name_that_does_not_exist_would_be_found() -> None:
    assert is_there("analysis/metrics/", SOURCE)
    assert is_there("catalogue.py", SOURCE)
    assert not is_there("analysis/metric/", SOURCE)
    assert not is_there("alogue.py", SOURCE)
    assert len(TREE) > 10
    assert len(PLACES) == 5
