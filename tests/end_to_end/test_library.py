"""What a user types: the whole way from a molecule to a page, from Python, with and without a directory."""

import dataclasses
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mdtraj
import numpy as np
import pandas
import pytest
import torch

import boltzport as bp
from boltzport.core.errors import InputError
from boltzport.ensembles.reference import HmcSettings, make_reference
from boltzport.molecules import Molecule as OwnMolecule
from molecules import molecule
from tiny import FLOW, METHOD

SMALL = bp.Molecular(**FLOW)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short reference of the dipeptide."""
    aldp = molecule("alanine-dipeptide")
    field = bp.ForceField.from_system(aldp.system, compiled=False)
    settings = HmcSettings(samples=64, ladders=8, iterations=8, warm_up=4)
    path = tmp_path_factory.mktemp("reference") / "ref"
    make_reference(aldp, field, settings=settings, seed=0).save(path)
    return path


@pytest.mark.parametrize("directory", [False, True])
def test_the_listing(tmp_path: Path, reference: Path, directory: bool, capsys: pytest.CaptureFixture[str]) -> None:
    aldp = bp.Molecule("alanine-dipeptide")
    out = tmp_path / "aldp" if directory else None
    model = bp.train(aldp, preset="quick", seed=0, method=bp.CMT(**METHOD), flow=SMALL, out=out, progress=directory)
    assert ("step 1/" in capsys.readouterr().err) == directory
    assert model.status.state == "done"
    ensemble = model.sample(400)
    assert ensemble.positions.shape == (400, 22, 3)
    assert ensemble.log_weights.shape == ensemble.reduced_energy.shape == (400,)
    assert 0.0 < ensemble.ess <= 1.0
    assert ensemble.log_z_error > 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bp.WeightsWarning)
        distance = ensemble.expectation(lambda x: np.linalg.norm(x[:, 0] - x[:, 18], axis=1), unit="nm")
    assert distance.interval.lower < distance.value < distance.interval.upper
    assert distance.unit == "nm"
    trajectory = ensemble.to_mdtraj()
    assert isinstance(trajectory, mdtraj.Trajectory)
    np.testing.assert_array_equal(trajectory.xyz, ensemble.positions)
    for mode in ("weighted", "resampled", "refined"):
        frames = model.sample(50, mode=mode)
        frames.save(tmp_path / f"{mode}.dcd")
        read = mdtraj.load(tmp_path / f"{mode}.dcd", top=tmp_path / f"{mode}.topology.pdb")
        np.testing.assert_allclose(read.xyz, frames.positions, atol=1e-5)
    results = model.evaluate(reference=bp.Reference.load(reference), n=400, transport_samples=20)
    assert "ess" in str(results)
    assert 0.0 < results["ess"].value <= 1.0
    assert results["nll"].unit == "nats"
    assert results["ramachandran.ALA2.kl"].floor is not None
    frame = results.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc["log_z", "value"] == results["log_z"].value
    assert list(frame.index) == list(results)
    page = model.report(tmp_path / "aldp.html")
    assert "Ramachandran" in page.read_text()
    saved = model.save(out or tmp_path / "saved")
    again = bp.load(saved)
    assert json.loads((saved / "ledger.json").read_text()) == model.ledger.to_json() == again.ledger.to_json()
    assert again.results.to_json() == json.loads(json.dumps(results.to_json()))
    np.testing.assert_array_equal(again.sample(100).positions, model.sample(100).positions)
    assert (saved / "checkpoint.pt").is_file() == directory


def test_a_directory_changes_nothing(tmp_path: Path) -> None:
    """Neither the bits of a training nor those of an evaluation, in memory or read again."""
    options = {"method": bp.CMT(steps=3, buffer_size=400, gradient_steps=5), "seed": 4, "progress": False}
    free, kept = bp.train("gmm-2d", **options), bp.train("gmm-2d", **options, out=tmp_path / "run")
    for one, other in zip(free.flow.parameters(), kept.flow.parameters(), strict=True):
        assert torch.equal(one, other)
    assert [{**row, "seconds": 0} for row in free.rows] == [{**row, "seconds": 0} for row in kept.rows]
    first, second = (
        {name: found.value for name, found in model.evaluate(n=500).items() if name != "wall_seconds"}
        for model in (free, bp.load(tmp_path / "run"))
    )
    assert first == second


def test_an_interrupted_training_is_resumed_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from boltzport.experiments.display import Display

    options = {"method": bp.CMT(steps=4, buffer_size=400, gradient_steps=5), "progress": False}
    whole, ended = bp.train("gmm-2d", **options), Display.step

    def interrupting(display: Display, info: object, **known: int) -> None:
        ended(display, info, **known)
        if info.step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "step", interrupting)
    with pytest.warns(UserWarning, match="interrupted; 2 steps are kept"):
        cut = bp.train("gmm-2d", **options, out=tmp_path / "run")
    monkeypatch.setattr(Display, "step", ended)
    assert (cut.status.state, cut.status.step) == ("interrupted", 2)
    resumed = bp.train("gmm-2d", **options, out=tmp_path / "run", resume=True)
    assert resumed.ledger.to_json() == whole.ledger.to_json()
    for one, other in zip(whole.flow.parameters(), resumed.flow.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(InputError, match="is not empty"):
        bp.train("gmm-2d", **options, out=tmp_path / "run")
    saved = whole.save(tmp_path / "saved")
    with pytest.raises(InputError, match="no checkpoint: there is nothing to resume"):
        bp.train("gmm-2d", out=saved, resume=True)


@contextmanager
def interrupted_steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Interrupt every training after its first step."""
    from boltzport.experiments.display import Display

    ended = Display.step

    def interrupting(display: Display, info: object, **known: int) -> None:
        ended(display, info, **known)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Display, "step", interrupting)
        yield


def resumed(message: str, **names: object) -> bp.Model:
    """Do what the message of an interrupted training says; no command can make the user's objects."""
    assert "boltzport train" not in message
    call = message.partition("Resume with: ")[2].partition(", with")[0]
    model = eval(call, {"boltzport": bp, **names})
    assert isinstance(model, bp.Model)
    return model


def test_forward_kl_learns_from_a_reference_in_memory(
    reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = bp.Reference.load(reference)
    in_memory = dataclasses.replace(loaded, source=loaded.positions)
    settings = {"steps": 2, "gradient_steps": 2, "batch_size": 10, "monitor": 20, "hold_out": 0.1}
    options = {"method": bp.ForwardKL(**settings), "flow": SMALL, "progress": False}
    aldp = molecule("alanine-dipeptide")
    first = bp.train(aldp, **options, reference=in_memory)
    second = bp.train(aldp, **options, reference=loaded)
    for one, other in zip(first.flow.parameters(), second.flow.parameters(), strict=True):
        assert torch.equal(one, other)
    assert (first.config.settings.data, second.config.settings.data) == ("", str(reference))
    with interrupted_steps(monkeypatch), pytest.warns(UserWarning, match="interrupted") as seen:
        bp.train(aldp, **options, reference=in_memory, out=tmp_path / "run")
    third = resumed(str(seen[0].message), molecule=aldp, reference=in_memory)
    for one, other in zip(first.flow.parameters(), third.flow.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_users_density_is_resumed_as_the_message_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command can make the density, so the message shows the call."""
    density = bp.Density(lambda x: -0.5 * (x**2).sum(1), [(-5.0, 5.0), (-5.0, 5.0)])
    options = {"method": bp.ReverseKL(steps=3, gradient_steps=2, batch_size=50), "progress": False}
    with interrupted_steps(monkeypatch), pytest.warns(UserWarning, match="interrupted") as seen:
        bp.train(density, **options, out=tmp_path / "run")
    model = resumed(str(seen[0].message), density=density)
    assert (model.status.state, model.status.step) == ("done", 3)


def test_settings_that_are_not_given_are_the_presets() -> None:
    from boltzport.experiments import request
    from boltzport.training.presets import CMT_PRESETS

    small = CMT_PRESETS.small
    found = request("gmm-2d", method=bp.CMT(trust_region=0.3)).settings
    assert (found.trust_region, found.steps, found.learning_rate) == (0.3, small.steps, small.learning_rate)
    assert bp.CMT().steps != small.steps, "or the test could not fail"
    # A setting that is given is taken, also where it equals the default of its class.
    assert request("gmm-2d", method=bp.CMT(steps=bp.CMT().steps)).settings.steps == bp.CMT().steps
    assert request("gmm-2d", method=bp.ReverseKL(steps=3)).method == "reverse-kl"
    with pytest.raises(InputError, match="trust_region: expected more than 0"):
        bp.CMT(trust_region=-1.0)


def test_a_density_of_ones_own(tmp_path: Path) -> None:
    """A normal cut off at its ends: its constant and its mean are known."""
    normal = bp.Density(lambda x: -0.5 * ((x - 1.0) ** 2).sum(1), [(-5, 7), (-5, 7)], name="normal")
    model = bp.train(normal, method=bp.CMT(steps=3), out=tmp_path / "run", progress=False)
    ensemble = model.sample(4000)
    assert ensemble.log_z == pytest.approx(np.log(2 * np.pi), abs=5 * ensemble.log_z_error)
    found = ensemble.expectation(lambda x: x[:, 0])
    assert found.value == pytest.approx(1.0, abs=5 * found.error)
    equal = model.sample(4000, mode="resampled", draws=8000).expectation(lambda x: x[:, 0])
    assert equal.value == pytest.approx(1.0, abs=5 * equal.error)
    with pytest.raises(InputError, match="is not a molecule"):
        _ = ensemble.positions
    with pytest.raises(InputError, match="pass it as density="):
        bp.load(tmp_path / "run")
    again = bp.load(tmp_path / "run", density=normal)
    np.testing.assert_array_equal(again.sample(50).coordinates, model.sample(50).coordinates)


def test_weights_that_justify_no_error_bar_are_said() -> None:
    needle = bp.Density(lambda x: -0.5 * ((x / 1e-3) ** 2).sum(1), [(-5, 5), (-5, 5)])
    model = bp.train(needle, method=bp.ReverseKL(steps=1, gradient_steps=1), progress=False)
    ensemble = model.sample(1000)
    with pytest.warns(bp.WeightsWarning, match="the error bar is not justified: the draws are worth"):
        found = ensemble.expectation(lambda x: x[:, 0])
    assert "independent" in found.note
    with pytest.raises(InputError, match="one number for each of 1000 frames"):
        ensemble.expectation(lambda x: x)


def test_an_energy_of_ones_own(tmp_path: Path) -> None:
    """Half of the force field's energy: the log density is half as large at the same points."""
    aldp = molecule("alanine-dipeptide")
    field = bp.ForceField.from_system(aldp.system, compiled=False)
    energy = bp.CallableEnergy(lambda x: 0.5 * field(x), forces=lambda x: 0.5 * field.energy_and_forces(x).forces)
    model = bp.train(aldp, energy=energy, method=bp.CMT(**METHOD), flow=SMALL, out=tmp_path / "run", progress=False)
    frames = model.sample(20)
    exact = 0.5 * field(torch.from_numpy(frames.positions.astype(np.float64))) / 2.494339
    np.testing.assert_allclose(frames.reduced_energy, exact, rtol=1e-4, atol=0.05)
    with pytest.raises(InputError, match="pass it as energy="):
        bp.load(tmp_path / "run")
    again = bp.load(tmp_path / "run", energy=energy)
    np.testing.assert_array_equal(again.sample(20).reduced_energy, frames.reduced_energy)
    blind = bp.CallableEnergy(field, differentiable=False)
    unseen = bp.train(aldp, energy=blind, method=bp.CMT(**METHOD), flow=SMALL, progress=False)
    # The coordinates are those of the force field, and its evaluations are not the target's.
    assert unseen.ledger["startup"] == unseen.ledger.gradients == 0
    assert unseen.target.counted.target.map is not None
    with pytest.raises(InputError, match=r"expected a tensor of shape \(1,\), got \(\)"):
        bp.CallableEnergy(lambda x: x.sum())(torch.zeros(1, 2, 3))


def test_an_openmm_system_is_a_molecule(tmp_path: Path) -> None:
    """The same forces by another way are the same molecule; its run directory holds all that is needed."""
    aldp = molecule("alanine-dipeptide")
    mine = bp.Molecule(aldp.system, topology=aldp.openmm_topology, positions=aldp.positions, name="mine")
    np.testing.assert_allclose(mine.positions, aldp.positions, atol=1e-4)
    assert mine.coordinates.columns == aldp.coordinates.columns
    model = bp.train(mine, method=bp.CMT(**METHOD), flow=SMALL, out=tmp_path / "run", progress=False)
    again = bp.load(tmp_path / "run")
    assert isinstance(again.molecule, OwnMolecule)
    assert again.molecule.name == "mine"
    np.testing.assert_array_equal(again.sample(20).positions, model.sample(20).positions)
    with pytest.raises(InputError, match="with its topology and positions"):
        bp.Molecule(aldp.system)
    with pytest.raises(InputError, match="expected a system and positions of the topology's 22 atoms"):
        bp.Molecule(aldp.system, topology=aldp.openmm_topology, positions=aldp.positions[:-1])


def test_importing_is_cheap() -> None:
    code = "import sys, boltzport; assert 'torch' not in sys.modules and 'openmm' not in sys.modules; dir(boltzport)"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = bp.Nothing
    assert set(bp.__all__) <= set(dir(bp))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bp.train("gmm-2d", preset="fast"), "preset: expected quick, laptop, paper, got fast"),
        (lambda: bp.train("gmm-2d", method="adam"), "method: expected cmt, "),
        (lambda: bp.train("gmm-2d", flow="splines"), "flow: expected molecular or couplings, got splines"),
        (lambda: bp.train("gmm-2d", resume=True), "resume: expected the run directory"),
        (lambda: bp.train("gmm-2d", energy=lambda x: x), "gmm-2d is a toy"),
        (lambda: bp.train(bp.Density(lambda x: x, [(0, 1)]), energy=lambda x: x), "takes no energy; leave it out"),
        (lambda: bp.Molecule("ACE-ALA-NME", constraints="all"), "constraints: expected none, hbonds, got all"),
        (lambda: bp.load("nowhere"), "no such run: nowhere"),
        (lambda: bp.load("alanine-dipeptide").sample(10, mode="best"), "mode: expected weighted, resampled, refined"),
        (lambda: bp.load("alanine-dipeptide").sample(0), "expected a positive number of frames"),
        (lambda: bp.load("alanine-dipeptide").save(), "expected a path: the model has no run directory"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
