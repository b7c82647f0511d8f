"""A small molecule from its SMILES to a page, and back from its run directory."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import boltzport as bp
from boltzport.cli import main

SETTINGS = "flow=couplings pairs=2 hidden=16 steps=3 gradient_steps=10 buffer_size=600 batch_size=200 refine=0"
TINY = [word for setting in SETTINGS.split() for word in ("--set", setting)]


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return int(stop.value.code or 0)


@pytest.mark.slow
def test_butane_from_smiles_to_page_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("train", "smiles:CCCC", "--preset", "quick", *TINY) == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("CCCC-")
    assert {"molecule.sdf", "reference.pdb", "report.html", "evaluation.json"} <= {path.name for path in run.iterdir()}
    capfd.readouterr()
    assert command("evaluate", str(run), "-n", "500", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert found["samples"] == 500
    assert np.isfinite(found["log_z"])
    assert command("sample", str(run), "-n", "50", "-o", "butane.pdb") == 0

    # The run does not embed the molecule again, and so does not depend on the version of RDKit.
    monkeypatch.setattr("boltzport.molecules.smiles.embed", None)
    with bp.load(run) as model:
        assert model.molecule is not None
        assert model.molecule.topology.n_atoms == 14
        drawn = model.sample(20)
    first = torch.from_numpy(drawn.positions).double()
    again = model.molecule.coordinates.to_cartesian(model.molecule.coordinates.to_internal(first).coordinates)
    assert again.positions.isfinite().all()


@pytest.mark.slow
def test_inspect_a_small_molecule(capfd: pytest.CaptureFixture[str]) -> None:
    assert command("inspect", "C[C@H](F)/C=C/O", "--json") == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["system"], found["atoms"], found["forcefield"]) == ("C[C@H](F)/C=C/O", 13, ["MMFF94"])
    assert found["energy_backend"] == "tensors"
    assert found["chiral_centres"] == ["MOL1.C2"]
    assert found["constrained_bonds"] == 0
