"""`boltzport reference` as a user meets it."""

import json
import signal
from pathlib import Path

import mdtraj
import numpy as np
import pytest

from boltzport.cli import main
from boltzport.core.interrupt import stop_on_interrupt
from boltzport.ensembles.reference import Reference
from molecules import molecule


def call(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(["reference", *arguments])
    out, err = capfd.readouterr()
    return int(stop.value.code or 0), out, err


@pytest.fixture
def frames(tmp_path: Path) -> tuple[Path, Path]:
    """A trajectory of the reference structure, breathing."""
    system = molecule("alanine-dipeptide")
    growth = 1 + 0.002 * np.sin(np.arange(40))[:, None, None]
    trajectory = mdtraj.Trajectory(system.positions * growth, mdtraj.Topology.from_openmm(system.openmm_topology))
    paths = tmp_path / "frames.dcd", tmp_path / "topology.pdb"
    trajectory.save(str(paths[0]))
    trajectory[0].save(str(paths[1]))
    return paths


def test_a_trajectory_becomes_a_reference(capfd, frames, tmp_path: Path) -> None:
    trajectory, topology = map(str, frames)
    out = tmp_path / "reference"
    arguments = ("alanine-dipeptide", "--from", trajectory, "--topology", topology, "--out", str(out), "--json")
    code, printed, _ = call(capfd, *arguments)
    assert code == 0
    record = json.loads(printed)
    assert record["frames"] == 40
    assert record["sampler"] == "trajectory"
    assert record["diagnostics"]["converged"] is False
    assert record["diagnostics"]["message"].startswith("not converged: ")
    found = Reference.load(out)
    assert isinstance(found, Reference)
    assert found.positions.shape == (40, 22, 3)
    # Reading greets nobody on the standard output.
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "frames.dcd"), "expected --from and --topology together"),
        (("--samples", "0"), "at least 1 frame"),
        (("--sampler", "openmm", "--samples", "-5"), "at least 1 frame"),
    ],
)
def test_bad_usage_is_one_line(capfd, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    code, printed, error = call(capfd, "alanine-dipeptide", "--out", str(tmp_path / "reference"), *arguments)
    assert code == 2
    assert printed == ""
    assert words in error
    assert not (tmp_path / "reference").exists()


def test_the_first_interrupt_asks_and_the_second_insists() -> None:
    with stop_on_interrupt() as stop:
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_writes_what_there_is(capfd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that is stopped hands back fewer frames; the command writes them, says so and fails."""
    system = molecule("alanine-dipeptide")

    def stopped(*_: object, **settings: object) -> Reference:
        signal.raise_signal(signal.SIGINT)
        assert settings["stop"].asked
        return Reference(
            source=system.positions[None].astype(np.float32),
            pdb="",
            coordinates=np.zeros((1, 60), dtype=np.float32),
            reduced_energy=np.zeros(1),
            weights=np.ones(1),
            chain=np.zeros(1, dtype=int),
            provenance={"interrupted": True, "diagnostics": {"message": "not converged: there are too few frames"}},
        )

    monkeypatch.setattr("boltzport.ensembles.reference.sample.make_reference", stopped)
    code, printed, error = call(capfd, "alanine-dipeptide", "--out", str(tmp_path / "reference"))
    assert code == 1
    assert "not converged: there are too few frames" in printed
    assert error.endswith("reference holds the 1 frames sampled so far\n")
    assert len(Reference.load(tmp_path / "reference")) == 1
