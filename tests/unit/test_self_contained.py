"""A run holds what it depends on, notices what was changed, and is resumed only as what it is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments import MoleculeConfig, RunConfig, check_same, load, request, run_training, train
from boltzport.experiments.build import load_molecule
from boltzport.experiments.inputs import check_config, keep_inputs, with_inputs
from boltzport.experiments.resuming import only_process
from boltzport.flows import CouplingConfig
from boltzport.training.methods import CMTConfig
from molecules import molecule

SMALL = (
    "steps=2",
    "gradient_steps=2",
    "buffer_size=200",
    "batch_size=50",
    "pairs=1",
    "hidden=8",
    "average=0",
    "reuse=0",
)


@pytest.fixture(scope="module")
def toy_run(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    run_training(request("gmm-2d", preset="quick", settings=SMALL, seed=3), path, silent=True)
    return path


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's structure and force field, as the current directory."""
    folder = tmp_path / "mine"
    folder.mkdir()
    molecule("ACE-ALA-NME").write_pdb(folder / "mine.pdb")
    shipped = Path(__import__("openmm.app").app.__file__).parent / "data" / "amber99sbildn.xml"
    (folder / "field.xml").write_text(shipped.read_text())
    monkeypatch.chdir(folder)
    return folder


def kept(folder: Path) -> tuple[RunConfig, RunDirectory]:
    made = MoleculeConfig(forcefield=("field", "implicit/obc1.xml"))
    config = request("mine.pdb", preset="quick", molecule=made)
    directory = RunDirectory(folder / "run")
    directory.create()
    config.save(directory.config)
    keep_inputs(config, directory)
    return config, directory


def test_a_run_opens_from_another_folder_and_its_files_may_change(mine: Path, tmp_path: Path, monkeypatch) -> None:
    config, directory = kept(mine)
    before = load_molecule(config, directory)
    (mine / "mine.pdb").write_text("END\n")
    (mine / "field.xml").unlink()
    monkeypatch.chdir(tmp_path)
    again = load_molecule(RunConfig.load(directory.config), directory)
    assert again.name == "mine.pdb"
    assert np.array_equal(again.positions, before.positions)
    assert again.reference_energy() == before.reference_energy()


def test_a_changed_copy_is_an_error(mine: Path) -> None:
    config, directory = kept(mine)
    (copy,) = directory.inputs.glob("*field*")
    copy.write_text(copy.read_text().replace("0.1", "0.2", 1))
    with pytest.raises(InputError, match=r"1-field\.xml was changed since the run was made"):
        with_inputs(config, directory)


def test_a_saved_copy_of_a_run_has_them_too(mine: Path, tmp_path: Path) -> None:
    config, directory = kept(mine)
    (mine / "mine.pdb").unlink()
    other = RunDirectory(tmp_path / "other")
    other.create()
    config.save(other.config)
    keep_inputs(config, other, source=directory)
    assert with_inputs(config, other).system == str(other.inputs / "0-mine.pdb")


def test_an_edited_configuration_is_noticed(toy_run: Path) -> None:
    directory = RunDirectory(toy_run)
    text = directory.config.read_text()
    check_config(directory)
    try:
        directory.config.write_text(text.replace("seed = 3", "seed = 4"))
        for call in (lambda: load(toy_run), lambda: train("gmm-2d", out=toy_run, resume=True, progress=False)):
            with pytest.raises(InputError, match=r"config\.toml was edited since the run was made"):
                call()
    finally:
        directory.config.write_text(text)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"system": "many-well-32"}, "another system many-well-32 .the run has gmm-2d"),
        ({"method": "fab"}, "another method fab .the run has cmt"),
        ({"preset": "laptop"}, "another preset laptop"),
        ({"seed": 4}, "another seed 4 .the run has 3"),
        ({"settings": ["steps=5"]}, "another steps 5 .the run has 2"),
        ({"settings": ["pairs=2"]}, "another pairs 2 .the run has 1"),
        ({"settings": ["nonsense=2"]}, "no such setting"),
        ({"budget": 1e5}, "another budget"),
    ],
)
def test_a_contradiction_is_an_error(toy_run: Path, typed: dict, message: str) -> None:
    saved = RunConfig.load(toy_run / "config.toml")
    with pytest.raises(InputError, match=message):
        check_same(saved, toy_run, **typed)


def test_the_same_again_is_none(toy_run: Path) -> None:
    saved = RunConfig.load(toy_run / "config.toml")
    check_same(saved, toy_run)
    check_same(saved, toy_run, system="gmm-2d", method="cmt", preset="quick", seed=3, settings=SMALL)
    assert train("gmm-2d", out=toy_run, resume=True, progress=False).status.step == 2


def test_options_of_a_molecule_are_compared(tmp_path: Path) -> None:
    saved = request("aldp", preset="quick")
    check_same(saved, tmp_path, system="aldp", molecule=MoleculeConfig())
    with pytest.raises(InputError, match=r"temperature 310\.0 .the run has 300\.0"):
        check_same(saved, tmp_path, system="aldp", molecule=MoleculeConfig(temperature=310.0))


def test_only_one_process_trains(toy_run: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from boltzport.experiments.resuming import only_process\n"
        f"with only_process(Path({str(toy_run)!r})): print('free')"
    )
    with only_process(toy_run):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "another process is training in it" in done.stderr
        assert done.stdout == ""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "free\n"


@pytest.mark.parametrize("system", ["ACE-ALA-NME", "gmm-2d"])
def test_a_mistake_leaves_no_directory(tmp_path: Path, system: str) -> None:
    path = tmp_path / "run"
    config = request("gmm-2d", preset="quick", settings=SMALL)
    if system != "gmm-2d":
        config = request(system, preset="quick", molecule=MoleculeConfig(forcefield=("tip3p.xml",)))
        with pytest.raises(InputError, match="does not fit the molecule"):
            run_training(config, path, silent=True)
    else:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "something").touch()
        with pytest.raises(InputError, match="not empty"):
            run_training(config, path, silent=True)
        (tmp_path / "run" / "something").unlink()
        path.rmdir()
    assert not path.exists()


def test_the_log_has_what_was_said_before_the_directory(tmp_path: Path) -> None:
    path = tmp_path / "run"
    settings = CMTConfig(steps=1, gradient_steps=1, buffer_size=100, batch_size=50, average=0.0, reuse=0)
    train(
        "gmm-2d", method=settings, preset="quick", flow=CouplingConfig(pairs=1, hidden=(8,)), out=path, progress=False
    )
    log = (path / "run.log").read_text()
    assert log.index("started: cmt gmm-2d, seed 0") < log.index("step 1:")
    assert set(json.loads((path / "checksums.json").read_text())) == {"config.toml", "inputs"}
