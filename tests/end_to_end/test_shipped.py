"""The trained flow that ships with the package samples its molecule, with no training."""

import hashlib
import json
import math

import mdtraj
import numpy as np
import pytest
import safetensors

from boltzport.cli import main
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments import Model, RunConfig, run_path
from boltzport.experiments.compare.paper import published
from boltzport.experiments.opening import SHIPPED

SYSTEM = "alanine-dipeptide"


@pytest.mark.parametrize(
    ("system", "least"),
    [(SYSTEM, 0.97), ("alanine-tetrapeptide", 0.7), ("alanine-hexapeptide", 0.2), ("elil-tetrapeptide", 0.2)],
)
def test_it_says_where_it_comes_from(system: str, least: float) -> None:
    shipped = RunDirectory(run_path(system))
    provenance = json.loads((shipped.path / "provenance.json").read_text())
    assert provenance["command"] == RunConfig.load(shipped.config).command
    assert provenance["command"].startswith(f"boltzport train {system} ")
    assert json.loads(shipped.ledger.read_text())["training"] > 0
    assert json.loads(shipped.evaluation.read_text())["ess"] > least
    checksum = provenance.pop("sha256")
    assert hashlib.sha256(shipped.flow.read_bytes()).hexdigest() == checksum
    with safetensors.safe_open(shipped.flow, framework="pt") as file:
        assert json.loads(file.metadata()["provenance"]) == provenance


def test_all_of_them_are_small() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()) < 10e6


@pytest.mark.parametrize("name", ["tetra", "ACE-ALA-ALA-ALA-NME"])
def test_it_is_found_by_alias_and_sequence(name: str) -> None:
    assert run_path(name) == run_path("alanine-tetrapeptide")


def test_a_sequence_with_another_force_field_is_not_the_dipeptide() -> None:
    with pytest.raises(InputError, match="no such run: ACE-ALA-NME"):
        run_path("ACE-ALA-NME")


def test_the_papers_tables_stand_beside_it(capfd) -> None:
    """log Z of the paper is ours, to its last digit, once the measure of the orientation is the same."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", "paper", "--json"])
    assert ended.value.code in (0, None)
    printed = json.loads(capfd.readouterr().out)
    assert printed["measure"]["added"] == pytest.approx(2 * math.log(2 * math.pi))
    systems = {entry["system"]: entry["metrics"] for entry in printed["systems"]}
    for system in (SYSTEM, "alanine-tetrapeptide"):
        log_z = systems[system]["log_z"]
        assert log_z["ours"]["cmt"]["mean"] == pytest.approx(log_z["paper"]["cmt"]["mean"], abs=0.002)
        assert {*systems[system]} >= set(published()[system]["cmt"]), "every metric of the paper is a row"
        assert systems[system]["ess"]["ours"]["cmt"]["mean"] > systems[system]["ess"]["paper"]["cmt"]["mean"]


def test_the_tetrapeptide_has_the_constant_of_its_reference(tmp_path, capfd) -> None:
    """Of `boltzport reference alanine-tetrapeptide --seed 0`, by a bridge to the flow."""
    with pytest.raises(SystemExit) as ended:
        main(["sample", "alanine-tetrapeptide", "-n", "4000", "-o", str(tmp_path / "ensemble.npz"), "--json"])
    assert ended.value.code in (0, None)
    printed = json.loads(capfd.readouterr().out)
    assert printed["ess"] > 0.55
    assert printed["log_z"] == pytest.approx(-337.8686, abs=0.08)


def test_it_samples(tmp_path, capfd) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["sample", SYSTEM, "-n", "4000", "-o", str(tmp_path / "ensemble.dcd"), "--json"])
    assert ended.value.code in (0, None)
    printed = json.loads(capfd.readouterr().out)
    assert printed["frames"] == 4000
    assert printed["ess"] > 0.8
    assert printed["log_z"] == pytest.approx(-178.687, abs=0.03)
    frames = mdtraj.load(tmp_path / "ensemble.dcd", top=tmp_path / "ensemble.topology.pdb")
    phi, psi = (compute(frames)[1][:, 0] for compute in (mdtraj.compute_phi, mdtraj.compute_psi))
    with np.load(tmp_path / "ensemble.weights.npz") as file:
        weights = np.exp(file["log_weights"] - file["log_weights"].max())
    weights /= weights.sum()
    # In this force field phi is positive in three of a thousand, and both sides of psi are well populated.
    assert 0 < weights @ (phi > 0) < 0.015
    assert 0.1 < weights @ (np.abs(psi) < math.pi / 2) < 0.9


def test_it_samples_annealed_defended_and_by_chains(tmp_path, capfd) -> None:
    def sampled(*options: str) -> dict:
        with pytest.raises(SystemExit) as ended:
            main(["sample", SYSTEM, "-n", "400", "-o", str(tmp_path / "a.npz"), "--force", "--json", *options])
        assert ended.value.code in (0, None)
        return json.loads(capfd.readouterr().out)

    annealed = sampled("--anneal", "1")
    assert annealed["ess"] > 0.9
    assert annealed["log_z"] == pytest.approx(-178.687, abs=0.06)
    assert annealed["force_evaluations"] > 400 * 4
    defended = sampled("--defensive", "0.2")
    assert 0.5 < defended["ess"] < 0.97
    assert defended["log_z"] == pytest.approx(-178.687, abs=0.15)
    assert any("20% of the samples" in note for note in defended["notes"])
    chains = sampled("--chain")
    assert chains["chains"]["chains"] == 4
    assert chains["chains"]["proposals_accepted"] > 0.8
    with np.load(tmp_path / "a.npz") as file:
        assert file["weights"].tolist() == [1.0] * 400
        assert file["reduced_energy"].mean() == pytest.approx(-39.5, abs=2.0)


def test_the_other_commands_take_its_name(tmp_path, monkeypatch, capfd) -> None:
    """What ships is not written to: an evaluation is printed, a page goes to where the user is."""
    monkeypatch.chdir(tmp_path)
    shipped = {path: path.stat().st_mtime_ns for path in (SHIPPED / SYSTEM).iterdir()}

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        assert ended.value.code in (0, None)
        return capfd.readouterr().out

    printed = json.loads(call("evaluate", "aldp", "-n", "500", "--transport", "20", "--json"))
    assert printed["samples"] == 500
    assert printed["ess"] > 0.9
    assert (
        printed["target_evaluations"]
        == json.loads((SHIPPED / SYSTEM / "evaluation.json").read_text())["target_evaluations"]
    )
    compared = json.loads(call("compare", "aldp", "--json"))
    assert compared["systems"][0]["runs"][0]["metrics"]["ess"] > 0.97
    evaluate = Model.evaluate
    monkeypatch.setattr(Model, "evaluate", lambda model, **how: evaluate(model, **how, n=500))
    assert call("report", "aldp").split() == [f"{SYSTEM}.html"]
    page = (tmp_path / f"{SYSTEM}.html").read_text()
    assert 'id="ramachandran_ALA2"' in page
    assert {path: path.stat().st_mtime_ns for path in (SHIPPED / SYSTEM).iterdir()} == shipped
    assert {path.name for path in tmp_path.iterdir()} == {"comparison", f"{SYSTEM}.html"}
    sampled = json.loads(call("sample", "aldp", "-n", "300", "-o", "a.npz", "--json"))
    assert sampled["samples"] == 300
    assert sampled["target_evaluations"] == 300
    assert 0 < sampled["log_z_error"] < 0.05
