"""No evaluation of the target is lost: what a training, its looks at the flow and every evaluation of it cost."""

import json
from pathlib import Path

import pytest

import boltzport as bp
from boltzport.experiments import keeping, run_training
from boltzport.experiments.request import request
from boltzport.reporting import read_run

TINY = {"steps": 2, "gradient_steps": 3, "batch_size": 50}


def test_looks_and_gradients_stay_in_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "run"
    settings = bp.ForwardKL(**TINY, samples=300, monitor=150)
    model = bp.train("gmm-2d", method=settings, out=path, progress=False)
    assert model.ledger["monitoring"] == 2 * 150
    assert model.ledger.cost == 300
    # A reference of exact samples: chains are annealed from it, by gradients.
    results = model.evaluate(n=500, exact=400, transport_samples=20)
    model.save()
    kept = json.loads((path / "ledger.json").read_text())
    assert kept == model.ledger.to_json()
    assert kept["monitoring"] == 300
    assert kept["evaluation_gradients"] > 1000
    assert kept["evaluation"] == 500 + 400 + kept["evaluation_gradients"]
    # The cost of the training is one number, whoever says it.
    assert results["target_evaluations"].value == 300
    assert read_run(path).metrics.value("target_evaluations") == 300
    again = bp.load(path)
    again.evaluate(n=200)
    again.save()
    assert json.loads((path / "ledger.json").read_text())["evaluation"] == kept["evaluation"] + 200
    assert again.ledger.cost == 300


def test_the_command_is_stored_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from boltzport.cli import main

    monkeypatch.setattr("sys.argv", ["/usr/lib/ipykernel_launcher.py", "-f", "kernel.json"])
    model = bp.train("gmm-2d", method=bp.ReverseKL(**TINY), out=tmp_path / "mine", progress=False)
    assert model.config.command == ""
    assert "ipykernel" not in (tmp_path / "mine" / "config.toml").read_text()
    arguments = ["train", "gmm-2d", "--method", "reverse-kl", "--no-page", "--out", str(tmp_path / "typed")]
    arguments += [f"--set={name}={value}" for name, value in TINY.items()]
    monkeypatch.setattr("sys.argv", ["boltzport", *arguments])
    with pytest.raises(SystemExit):
        main(arguments)
    assert bp.load(tmp_path / "typed").config.command == " ".join(["boltzport", *arguments])


def test_the_flow_is_written_before_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint without its flow would resume to a run whose flow is a step behind."""
    written: list[str] = []
    write = keeping.write_atomically

    def noting(path: Path, content) -> None:
        written.append(path.name)
        write(path, content)

    monkeypatch.setattr(keeping, "write_atomically", noting)
    run_training(request("gmm-2d", method=bp.ReverseKL(**TINY)), tmp_path / "run", silent=True)
    assert written == ["flow.safetensors", "checkpoint.pt"] * 2
