"""Damaged files, hostile environments and impossible requests each end in one line."""

import gc
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import boltzport
from boltzport.cli import main
from boltzport.core.errors import InputError, RunError
from boltzport.core.files import RunDirectory, write_atomically
from boltzport.core.leftovers import remove_leftovers, temporary_name
from boltzport.core.tensors import to_safetensors
from boltzport.experiments import load, request, run_training, train
from boltzport.experiments.compare import compare
from boltzport.experiments.keeping import read_checkpoint, read_status
from boltzport.flows import CouplingConfig
from boltzport.reporting import read_run, write_report
from boltzport.targets import CountedTarget, Density
from boltzport.training.buffer import draw
from boltzport.training.methods import CMTConfig
from trainings import quiet, small_flow

SMALL = (
    "steps=3",
    "gradient_steps=2",
    "buffer_size=200",
    "batch_size=50",
    "pairs=1",
    "hidden=8",
    "average=0",
    "reuse=0",
)
RUBBISH = bytes(range(128, 256)) * 5


def trained(path: Path, *, steps: int = 3) -> RunDirectory:
    settings = [*SMALL, f"steps={steps}"]
    run_training(request("gmm-2d", preset="quick", settings=settings, seed=3), path, silent=True)
    return RunDirectory(path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "run").path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> RunDirectory:
    """A copy of a finished run."""
    subprocess.run(["cp", "-r", str(finished), str(tmp_path / "run")], check=True)
    return RunDirectory(tmp_path / "run")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return int(stop.value.code or 0), captured.err


@pytest.mark.parametrize("name", ["config", "status", "ledger", "evaluation", "checksums", "flow"])
@pytest.mark.parametrize("content", [RUBBISH, b"{", b"[1]", b'{"training": "many"}', b""], ids=str)
def test_rubbish_in_a_file_is_one_line(run: RunDirectory, name: str, content: bytes) -> None:
    getattr(run, name).write_bytes(content)
    messages = []
    for reader in (lambda: load(run.path), lambda: read_run(run.path), lambda: compare([run.path])):
        try:
            reader()
        except InputError as error:
            messages.append(str(error))
    assert not any("\n" in message for message in messages)


def test_rubbish_in_the_metrics_is_skipped(run: RunDirectory) -> None:
    whole = list(run.rows())
    run.metrics.write_bytes(RUBBISH + b"\n[1]\n" + run.metrics.read_bytes() + b'{"step": 9, "es')
    assert list(run.rows()) == whole
    write_report(read_run(run.path), run.path / "page.html", figures=False)


def test_a_run_that_never_began_can_be_compared(run: RunDirectory) -> None:
    for path in (run.metrics, run.status, run.ledger, run.flow, run.checkpoint, run.former):
        path.unlink(missing_ok=True)
    assert len(compare([run.path]).targets) == 1


def test_a_damaged_checkpoint_goes_on_from_the_one_before(tmp_path: Path, capsys) -> None:
    whole, run = trained(tmp_path / "whole", steps=4), trained(tmp_path / "run", steps=4)
    run.checkpoint.write_bytes(run.checkpoint.read_bytes()[:500])
    with pytest.raises(SystemExit):
        main(["train", "--resume", "--out", str(run.path), "--no-page"])
    assert "is damaged; the run goes on from the one before, step 3\n" in capsys.readouterr().err
    assert "is damaged; the run goes on from the one before, step 3" in run.log.read_text()
    assert run.flow.read_bytes() == whole.flow.read_bytes()
    rows = [{key: value for key, value in row.items() if key != "seconds"} for row in run.rows()]
    assert rows == [{key: value for key, value in row.items() if key != "seconds"} for row in whole.rows()]


def test_two_damaged_checkpoints_are_said_to_be_damaged(run: RunDirectory) -> None:
    for path in (run.checkpoint, run.former):
        path.write_bytes(RUBBISH)
    with pytest.raises(InputError, match="damaged, so that the run cannot be resumed") as caught:
        read_checkpoint(run)
    assert "weights_only" not in str(caught.value)


def test_a_checkpoint_that_is_gone_does_not_begin_anew(run: RunDirectory) -> None:
    for path in (run.checkpoint, run.former):
        path.unlink()
    run.status.write_text(json.dumps({"state": "interrupted", "step": 3}))
    with pytest.raises(InputError, match=r"has 3 finished steps and no checkpoint\.pt"):
        train("gmm-2d", out=run.path, resume=True, progress=False)
    assert len(list(run.rows())) == 3


def test_the_files_of_equal_runs_have_equal_bytes(tmp_path: Path, finished: Path) -> None:
    again = trained(tmp_path / "again")
    for name in ("flow.safetensors", "config.toml", "checksums.json", "ledger.json"):
        assert (again.path / name).read_bytes() == (finished / name).read_bytes(), name
    tensors = {"b": torch.ones(3), "a": torch.zeros(2, 2, dtype=torch.float64)}
    metadata = {str(number): "x" * number for number in range(20)}
    assert len({to_safetensors(tensors, metadata=dict(list(metadata.items())[::way])) for way in (1, -1)}) == 1


def test_leftovers_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = socket.gethostname()
    (tmp_path / f".boltzport-{host}-{dead.pid}-flow.safetensors").touch()
    (tmp_path / f".boltzport-{host}-{dead.pid}-abc").mkdir()
    kept = [tmp_path / temporary_name("x"), tmp_path / f".boltzport-elsewhere-{dead.pid}-x", tmp_path / ".mine"]
    for path in kept:
        path.touch()
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path: Path) -> None:
    def full(_file: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_text("old")
    with pytest.raises(RunError, match="No space left on device"):
        write_atomically(tmp_path / "file", full)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "gmm-2d", "--set", "buffer_size=1e18"], "of memory, and this machine has"),
        (["train", "gmm-2d", "--budget", "1e300"], "years at a million a second"),
        (["train", "gmm-2d", "--set", "steps=1e9", "--set", "buffer_size=1e5"], "at a million a second"),
        (["train", "gmm-2d", "--seed", "1.5"], "--seed: expected a whole number from 0 to 1073741823, got 1.5\n"),
        (["train", "gmm-2d", "--seed", "4294967296"], "--seed: expected a whole number"),
        (["train", "gmm-2d", "--seed", "1" + 23 * "0"], "--seed: expected a whole number"),
        (["train", "gmm-2d", "--seed", "-1"], "seed"),
        (["train", "gmm-2d", "--set", "learning_rate=inf"], "learning_rate: expected more than 0 and finite, got inf"),
        (["train", "gmm-2d", "--set", "weight_decay=inf"], "weight_decay"),
        (["train", "gmm2-d"], "did you mean 'gmm-2d'"),
        (["evaluate", "RUN", "--transport", "-1"], "expected at least 1 sample"),
        (["evaluate", "RUN", "-n", "1e30"], "years at a million"),
        (["evaluate", "RUN", "--transport", "10000000"], "of memory"),
        (["sample", "RUN", "-n", "1e30", "-o", "OUT/s.npz"], "years at a million"),
        (["sample", "RUN", "-n", "9e10", "-o", "OUT/s.npz"], "of (disk|memory)"),
        (["sample", "RUN", "-n", "10", "-o", "OUT/s.gro"], "expected a file that ends in"),
        (["inspect", "[/b]"], "is not a valid SMILES"),
        (["inspect", "gmm-2d"], "gmm-2d is a toy; expected a molecule"),
        (["inspect", "CCO", "--ph", "3"], "a pH of 3 has no effect"),
        (["train", ""], "got an empty text"),
        (["train", "gmm-2d", "--resume", "--out", "RUN", "--energy", "gfn2-xtb"], "another energy gfn2-xtb"),
        (["settings", "cmt", "--system", "nope"], "is not a system"),
        (["bench", "paper", "--markdown", "--json"], "expected one of them"),
        (["sample", "RUN", "RUN", "-n", "10", "-o", "OUT/s.npz"], "got this one twice"),
        (["report", "RUN", "-o", "OUT"], "it is a directory"),
        (["reference", "ACE-ALA-NME", "--out", "RUN"], "is the run directory of a training"),
        (["retarget", "alanine-dipeptide", "--out", "OUT/r"], "expected another --temperature"),
        (["retarget", "alanine-dipeptide", "--temperature", "350", "--out", "RUN"], "is not empty"),
        (["retarget", "RUN", "--temperature", "350", "--out", "OUT/r", "-n", "1e30"], "years at a million"),
        (["retarget", "RUN", "--temperature", "350", "--out", "OUT/r"], "is not a molecule"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_impossible_requests(arguments: list[str], message: str, finished: Path, tmp_path: Path, capsys) -> None:
    words = [word.replace("RUN", str(finished)).replace("OUT", str(tmp_path)) for word in arguments]
    before = set(tmp_path.iterdir())
    code, err = said(capsys, *words)
    assert code == 2
    assert err.count("\n") == 1
    import re

    assert re.search(message, err), err
    assert set(tmp_path.iterdir()) == before


def test_nothing_is_overwritten_unasked(finished: Path, tmp_path: Path, capsys) -> None:
    target = tmp_path / "s.npz"
    assert said(capsys, "sample", str(finished), "-n", "50", "-o", str(target))[0] == 0
    before = target.read_bytes()
    code, err = said(capsys, "sample", str(finished), "-n", "60", "-o", str(target))
    assert (code, target.read_bytes()) == (2, before)
    assert "s.npz exists; choose another name, or overwrite it with --force" in err
    assert said(capsys, "sample", str(finished), "-n", "60", "-o", str(target), "--force")[0] == 0
    assert len(np.load(target)["weights"]) == 60


READ_ONLY = """
import sys
from boltzport.cli import main
run = sys.argv[1]
for words in (
    ["report", run], ["sample", run, "-n", "5", "-o", f"{run}/s.npz"], ["evaluate", run, "-n", "200"],
    ["train", "--resume", "--out", run, "--no-page"], ["train", "gmm-2d", "--out", f"{run}/new"],
):
    try:
        main(words)
    except SystemExit as stop:
        print(words[0], stop.code)
"""


def test_a_read_only_folder(run: RunDirectory, tmp_path: Path) -> None:
    """Of the run, and of the compiler's cache; for root without its right to write everywhere."""
    root = os.geteuid() == 0
    if root and shutil.which("setpriv") is None:
        pytest.skip("nothing is read-only for root without setpriv")
    command = [*(("setpriv", "--bounding-set=-dac_override") if root else ()), sys.executable, "-c", READ_ONLY]
    (run.path / "cache").mkdir()
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    places = [run.path, *(path for path in run.path.rglob("*"))]
    for path in places:
        path.chmod(0o555 if path.is_dir() else 0o444)
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(run.path / "cache"), "MPLCONFIGDIR": str(tmp_path)}
    try:
        done = subprocess.run(
            [*command, str(run.path)], env=environment, capture_output=True, text=True, check=False, cwd=tmp_path
        )
    finally:
        for path in places:
            path.chmod(0o755)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout.split() == ["report", "1", "sample", "1", "evaluate", "1", "train", "1", "train", "2"]
    assert sum(line.startswith("boltzport: ") for line in done.stderr.splitlines()) == 5
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_a_full_disk_while_frames_are_written(finished: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk."""

    def small_disk() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [sys.executable, "-m", "boltzport", "sample", str(finished), "-n", "20000", "-o", str(tmp_path / "s.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, preexec_fn=small_disk)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_output_in_ascii(finished: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    command = [sys.executable, "-m", "boltzport", "settings", "fab"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")
    assert finished.is_dir()


def test_settings_lists_every_key(capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["settings", "cmt", "--json"])
    assert not stop.value.code
    found = {one["key"]: one for one in json.loads(capsys.readouterr().out)["settings"]}
    assert found["trust_region"]["kind"] == "a number"
    assert "KL divergence" in found["trust_region"]["meaning"]
    assert "flow.pairs" in found
    assert all(one["meaning"] and "<" not in one["kind"] for one in found.values())
    assert (found["anneal"]["range"], found["flow.bins"]["range"]) == ("0.01 to 1", "2 to 64")
    assert all(bool(one["range"]) == ("number" in one["kind"]) for one in found.values())
    code, err = said(capsys, "settings", "cmd")
    assert (code, "expected cmt" in err) == (2, True)


def test_a_density_that_is_no_tensor(tmp_path: Path) -> None:
    del tmp_path
    density = Density(lambda x: -(x.numpy() ** 2).sum(1), [(-1.0, 1.0)])
    with pytest.raises(InputError, match="expected a torch tensor, got ndarray"):
        density.evaluate(torch.zeros(3, 1))


def test_no_samples(finished: Path) -> None:
    with load(finished) as model, pytest.raises(InputError, match="positive number of frames"):
        model.sample(0)


def test_an_unknown_status_is_not_a_traceback(run: RunDirectory) -> None:
    run.status.write_text(json.dumps({"step": "many"}))
    with pytest.raises(InputError, match="damaged"):
        read_status(run)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_energies_that_are_not_numbers(share: float) -> None:
    """They are counted and have weight zero; a buffer without any energy ends the run."""

    def density(x: torch.Tensor) -> torch.Tensor:
        value = -0.5 * (x**2).sum(1)
        cut = int(share * len(x))
        return torch.where(torch.arange(len(x)) < cut, torch.full_like(value, torch.nan), value)

    target = CountedTarget(Density(density, [(-5.0, 5.0), (-5.0, 5.0)]))
    generator = torch.Generator().manual_seed(0)
    if share == 1.0:
        with pytest.raises(RunError, match="1000 of 1000 samples of the flow have no finite density"):
            draw(small_flow(target.target), target, 1000, generator=generator, progress=quiet)
        return
    drawn = draw(small_flow(target.target), target, 1000, generator=generator, progress=quiet)
    assert (drawn.failed, drawn.buffer.size) == (1000 * share, 1000 - 1000 * share)
    settings = CMTConfig(steps=2, gradient_steps=2, buffer_size=200, batch_size=50, average=0.0, reuse=0)
    model = boltzport.train(target.target, method=settings, flow=CouplingConfig(pairs=1, hidden=(8,)), progress=False)
    assert [row["failed"] for row in model.rows] == [200 * share] * 2
    assert all(np.isfinite(row["ess"]) for row in model.rows)


@pytest.mark.slow
def test_a_long_run_grows_nowhere(tmp_path: Path) -> None:
    """After the first steps, neither memory nor open files grow; `benchmarks/soak.py` does the same for longer."""
    settings = [*SMALL, "steps=200", "trust_region=0.05"]
    seen: dict[int, tuple[int, int]] = {}
    keep = boltzport.experiments.launch.keep_step

    def measured(training, directory) -> None:
        keep(training, directory)
        if training.state.step in (50, 200):
            # Not after each step: among all the objects of a test run it takes a second.
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            seen[training.state.step] = pages * resource.getpagesize(), len(list(Path("/proc/self/fd").iterdir()))

    boltzport.experiments.launch.keep_step = measured
    try:
        run_training(request("gmm-2d", preset="quick", settings=settings), tmp_path / "run", silent=True)
    finally:
        boltzport.experiments.launch.keep_step = keep
    assert len(list(RunDirectory(tmp_path / "run").rows())) == 200
    assert seen[200][1] <= seen[50][1]
    assert seen[200][0] - seen[50][0] < 20e6
    assert not list((tmp_path / "run").glob(".boltzport-*"))
