"""Every kind of write to a full disk ends in one line; what was there stays, and nothing temporary is left."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import boltzport as bp
from boltzport.core.errors import RunError
from boltzport.core.files import RunDirectory
from boltzport.core.serving import Evaluated
from boltzport.energies.record import Record, digests
from boltzport.ensembles.frames import open_frames
from boltzport.experiments import load, request, run_training
from boltzport.experiments.compare import compare, write_comparison
from boltzport.experiments.keeping import logging_to
from boltzport.reporting import read_run, write_report
from small_disk import small_disk
from tiny import TOY

FRAMES = np.random.default_rng(0).normal(size=(60, 22, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    with run_training(request("gmm-2d", preset="quick", settings=TOY), path, silent=True) as model:
        model.evaluate(n=500)
        model.save()
        model.report()
    return path


@pytest.fixture(scope="module")
def molecule() -> bp.Molecule:
    return bp.Molecule("ACE-ALA-NME")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fails(write: Callable[[], object], folder: Path, size: int) -> dict[str, bytes]:
    """Write to a small disk; returns what is there afterwards, and was not before."""
    before = contents(folder)
    with small_disk(size), pytest.raises(RunError) as caught:
        write()
    assert "cannot be written" in str(caught.value)
    assert "\n" not in str(caught.value)
    after = contents(folder)
    assert {name: after.get(name) for name in before} == before
    assert not [name for name in after if ".boltzport-" in name]
    return {name: content for name, content in after.items() if name not in before}


@pytest.mark.parametrize("size", [0, 3000, 30_000])
def test_a_page_and_its_figures(finished: Path, tmp_path: Path, size: int) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    assert fails(lambda: write_report(read_run(run)), tmp_path, size) == {}


def test_a_comparison(finished: Path, tmp_path: Path) -> None:
    found = compare([finished])
    assert fails(lambda: write_comparison(found, tmp_path / "comparison"), tmp_path, 3000) == {}


@pytest.mark.parametrize("size", [0, 2000])
def test_an_evaluation(finished: Path, tmp_path: Path, size: int) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    with load(run) as model:
        model.evaluate(n=500, seed=2)
        # The ledger is smaller, and is written first.
        (run / "ledger.json").unlink()
        new = fails(model.save, tmp_path, size)
    assert set(new) <= {"run/ledger.json"}


@pytest.mark.parametrize("size", [0, 1500])
def test_a_model_and_its_flow(finished: Path, tmp_path: Path, size: int) -> None:
    with load(finished) as model:
        new = fails(lambda: model.save(tmp_path / "copy"), tmp_path, size)
        assert "copy/flow.safetensors" not in new
        assert fails(lambda: model.flow.save(tmp_path / "flow.safetensors"), tmp_path, size) == {}


@pytest.mark.parametrize("size", [0, 2000, 100_000])
def test_frames_of_a_toy(finished: Path, tmp_path: Path, size: int) -> None:
    with load(finished) as model:
        assert fails(lambda: model.write(tmp_path / "s.npz", 20_000), tmp_path, size) == {}


@pytest.mark.parametrize("suffix", ["dcd", "xtc", "pdb", "npz"])
@pytest.mark.parametrize("part", [0.0, 0.4, 0.8, 0.99])
def test_frames_of_a_molecule_are_complete_or_an_error(
    molecule: bp.Molecule, tmp_path: Path, suffix: str, part: float
) -> None:
    """Also where only the last of them, which are written as the file is closed, find no space."""
    path = tmp_path / f"s.{suffix}"

    def write() -> None:
        with open_frames(path, molecule, frames=60) as append:
            for start in range(0, 60, 10):
                append(FRAMES[start : start + 10])

    write()
    whole = path.stat().st_size
    path.unlink()
    with small_disk(int(part * whole)), pytest.raises(OSError, match=r"No space left|too large"):
        write()


@pytest.mark.parametrize("size", [0, 3000, 16_000])
def test_a_reference(molecule: bp.Molecule, tmp_path: Path, size: int) -> None:
    parts = {"reduced_energy": np.zeros(60), "weights": np.ones(60), "chain": np.zeros(60, dtype=np.int64)}
    frames = {"source": FRAMES, "coordinates": np.zeros((60, 48)), "pdb": molecule.to_pdb()}
    reference = bp.Reference(**frames, **parts, provenance={"system": "a"})
    assert fails(lambda: reference.save(tmp_path / "new"), tmp_path, size) == {}
    kept = reference.save(tmp_path / "kept")
    fails(lambda: reference.save(tmp_path / "kept"), tmp_path, size)
    assert np.array_equal(bp.Reference.load(tmp_path / "kept").positions, kept.positions)


def test_structures_and_systems(molecule: bp.Molecule, tmp_path: Path) -> None:
    assert fails(lambda: molecule.write_pdb(tmp_path / "a.pdb"), tmp_path, 500) == {}
    assert fails(lambda: molecule.write_system(tmp_path / "a.xml"), tmp_path, 500) == {}


@pytest.mark.parametrize("size", [0, 30, 700])
def test_energies_that_were_evaluated_stay(tmp_path: Path, size: int) -> None:
    path = tmp_path / "energies.bin"
    keys = digests(np.random.default_rng(1).normal(size=(30, 2, 3)))

    def write() -> None:
        with Record(path, identity="zero", atoms=2) as record:
            for key in keys:
                record.append([key], Evaluated(np.array([1.5]), np.zeros((1, 2, 3)), ""))

    with small_disk(size), pytest.raises(RunError, match="cannot be written"):
        write()
    with Record(path, identity="zero", atoms=2) as record:
        known = len(record)
        assert known == sum(record.find(key, forces=True) is not None for key in keys)
    write()
    with Record(path, identity="zero", atoms=2) as record:
        assert len(record) == len(keys) > known


def test_a_log_that_cannot_be_written_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with small_disk(0), logging_to(tmp_path / "run.log") as log:
        log.begin()
        logging.getLogger("boltzport").info("a message")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("size", [0, 1200, 5000])
def test_a_training_goes_on_where_there_is_space_again(finished: Path, tmp_path: Path, size: int) -> None:
    config = request("gmm-2d", preset="quick", settings=TOY)
    path = tmp_path / "run"
    with small_disk(size), pytest.raises(RunError, match="cannot be written"):
        run_training(config, path, silent=True)
    assert not list(tmp_path.rglob(".boltzport-*"))
    begun = (path / "config.toml").is_file()
    run_training(config, path, silent=True, resume=begun)
    assert (path / "flow.safetensors").read_bytes() == (finished / "flow.safetensors").read_bytes()
    assert len(list(RunDirectory(path).rows())) == 2
