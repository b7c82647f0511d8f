"""Examples run as they are, and show what they say."""

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tiny import FLOW, METHOD

EXAMPLES = Path(__file__).parents[2] / "examples"
PARAMETERS = f"""
preset = "quick"
method = bp.CMT(**{METHOD})
flow = bp.Molecular(**{FLOW})
samples = 400
import warnings
warnings.simplefilter("ignore", bp.WeightsWarning)
"""
"""Tiny settings in the place of the cell that has the tag `parameters`."""


def executed(name: str, parameters: str, folder: Path) -> str:
    """All that a notebook prints, with these parameters."""
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept in the repository"
    (cell,) = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ()))
    cell.source = parameters
    with warnings.catch_warnings():
        # Of the kernel's own libraries.
        warnings.simplefilter("ignore")
        NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(folder)}}).execute()
    return json.dumps([output for cell in notebook.cells for output in cell.get("outputs", ())], ensure_ascii=False)


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.slow
def test_the_quickstart_runs(tmp_path: Path) -> None:
    printed = executed("quickstart", PARAMETERS, tmp_path)
    assert "Ramachandran" in (tmp_path / "aldp.html").read_text()
    assert "end to end = " in printed
    assert "step 1/" in printed


@pytest.mark.slow
def test_an_energy_of_ones_own(tmp_path: Path) -> None:
    printed = executed("own_energy", PARAMETERS, tmp_path)
    assert "end to end, restrained = " in printed
    free_energy = re.findall(r"free energy of the restraint ([-\d.]+) kJ/mol", printed)
    assert float(free_energy[0]) > 0.0, "a restraint has a positive energy"


@pytest.mark.slow
def test_rotamers_of_a_small_molecule(tmp_path: Path) -> None:
    printed = executed("small_molecule", PARAMETERS.replace("samples", 'smiles = "smiles:CCCC"\nsamples'), tmp_path)
    (share,) = re.findall(r"anti = ([\d.]+)", printed)
    assert 0.0 < float(share) < 1.0


@pytest.mark.slow
def test_methods_are_compared(tmp_path: Path) -> None:
    parameters = 'system, budget, samples = "gmm-2d", 2e4, 1000\nmethods = ["cmt", "reverse-kl"]'
    printed = executed("comparing_methods", parameters, tmp_path)
    assert "ess_unclipped" in printed
    assert "reverse-kl" in printed


def test_annealing_paths_show_what_the_papers_caption_says(tmp_path: Path) -> None:
    picture = tmp_path / "paths.png"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    command = [sys.executable, str(EXAMPLES / "annealing_paths.py"), str(picture)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300).stdout
    assert picture.stat().st_size > 20_000
    pattern = r"(.*): (\d+) steps, largest ([\d.]+) nats, least mass of the far mode ([\d.e+-]+)"
    found = {title: (float(largest), float(least)) for title, _, largest, least in re.findall(pattern, printed)}
    start = found["both"][1]
    # The trust region evens the steps out, but gives up the far mode, which then comes back from nowhere.
    assert found["trust region"][0] < 0.11 < found["linear schedule"][0]
    assert found["trust region"][1] < start / 10
    # The entropy constraint keeps it, at the price of a first step that nothing overlaps with.
    assert found["entropy"][0] > 3.0
    # Both together keep it with small steps: its mass never falls below what the initial density has there.
    assert found["both"][0] < 0.11
    assert found["entropy"][1] == start > 1e-4
