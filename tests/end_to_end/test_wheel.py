"""The wheel, installed into an environment of its own: it has all files, works, and is typed."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = """
from pathlib import Path

import numpy as np

import boltzport as bp


def end_to_end(positions: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(positions[:, 0] - positions[:, 18], axis=1))


model: bp.Model = bp.load("alanine-dipeptide")
ensemble: bp.Ensemble = model.sample(300, seed=1)
found: bp.Estimate = ensemble.expectation(end_to_end, unit="nm")
results: bp.Results = model.evaluate(n=300)
page: Path = model.report("page.html")
print(f"{ensemble.ess:.3f} {found.value:.3f} {results['ess'].value:.3f} {bp.__file__}")
"""
WRONG = 'reveal: int = bp.load("alanine-dipeptide").sample("many").ess\n'
"""Two mistakes that types show."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # What an earlier build left there would be packed again.
    shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=300)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, which borrows the libraries of this one but not its boltzport."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(wheel)], check=True
    )
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def test_it_has_every_file_of_the_package(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("boltzport/")}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert packed == {name.removeprefix("src/") for name in listed.splitlines()}


@pytest.mark.slow
def test_a_typed_program_runs_and_passes_mypy(python: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    alone = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    ran = subprocess.run([python, "program.py"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split()[-1].startswith(str(python.parents[1])), "the installed package, not the source"
    assert (tmp_path / "page.html").is_file()
    mypy = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        f"--python-executable={python}",
        "--cache-dir",
        str(tmp_path / "c"),
    ]
    checked = subprocess.run(
        [*mypy, "program.py"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout
    (tmp_path / "wrong.py").write_text(f"import boltzport as bp\n\n{WRONG}")
    checked = subprocess.run([*mypy, "wrong.py"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert checked.stdout.count("error:") == 2, checked.stdout
