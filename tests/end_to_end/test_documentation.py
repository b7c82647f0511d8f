"""The documentation site builds without warnings, and what it shows works."""

import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from cyclopts import CycloptsError, MissingArgumentError

import boltzport as bp
from boltzport.cli.app import app
from tiny import CODE

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}


def commands() -> list[tuple[str, str]]:
    """Every command of boltzport in the code of a page: fenced, indented or in a sentence."""
    found = []
    for name, text in PAGES.items():
        fenced = "\n".join(re.findall(r"```shell\n(.*?)```", text, flags=re.DOTALL))
        indented = "\n".join(line for line in text.replace("\\\n", " ").splitlines() if line.startswith("    "))
        found += [
            (name, line.strip()) for line in re.findall(r"^ *boltzport .*", f"{fenced}\n{indented}", re.MULTILINE)
        ]
        found += [(name, " ".join(line.split())) for line in re.findall(r"`(boltzport [a-z][^`]*)`", text)]
    return found


@pytest.mark.parametrize(("page", "command"), commands(), ids=lambda value: value[:60])
def test_commands_are_those_of_the_command_line(page: str, command: str) -> None:
    words = [re.sub(r"\b[NBK]$", "1", word) for word in shlex.split(command, comments=True)[1:]]
    if words[0] in ("COMMAND", "--install-completion"):
        return
    try:
        bound = app.parse_args(words, exit_on_error=False, print_error=False)
    except MissingArgumentError:
        # A sentence names a command without all that it needs.
        return
    assert bound, page


def test_a_wrong_command_would_be_found() -> None:
    for words in (
        ["trian", "gmm-2d"],
        ["train", "gmm-2d", "--sede", "1"],
        ["sample", "x", "-n", "many", "-o", "x.dcd"],
    ):
        with pytest.raises(CycloptsError):
            app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(ROOT / "docs"), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        assert not re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', text), page
    assert "<math" in (tmp_path / "method.html").read_text()
    for name in bp.__all__:
        assert name.startswith("__") or f"bp.{name}" in (tmp_path / "api.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["index.md", "tutorial.md", "energies.md"])
def test_python_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as a reader types them; those that train do so with tiny settings."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bp.WeightsWarning)
        for block in re.findall(r"```python\n(.*?)```", PAGES[page], flags=re.DOTALL):
            code = (
                block.replace('preset="quick"', f"{CODE}, progress=False")
                .replace("100_000", "400")
                .replace("bp.train(density)", "bp.train(density, method=bp.CMT(steps=2), progress=False)")
            )
            names.setdefault("system", bp.Molecule("ACE-ALA-NME").system if "ForceField" in code else None)
            if "positions" in code and "positions" not in names and "molecule" in names:
                import torch

                names["positions"] = torch.from_numpy(names["molecule"].positions)[None]  # type: ignore[attr-defined]
            exec(compile(code, page, "exec"), names)
    assert isinstance(names["model"], bp.Model)


def test_the_version_is_the_same_everywhere() -> None:
    """It is set in `boltzport/__init__`; the build reads it there."""
    newest = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest[0][0] == bp.__version__
    assert [version for version, _ in newest][-1] == "0.1.0"
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {newest[0][0]}\ndate-released: {newest[0][1]}\n" in citation
    assert "__version__" in (ROOT / "pyproject.toml").read_text()
