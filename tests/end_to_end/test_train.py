"""`boltzport train`: runs that survive anything, and need no OpenMM on toys."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from boltzport.cli import main
from boltzport.flows import load_flow

KEYS = "steps=4 gradient_steps=15 buffer_size=2000 batch_size=200 pairs=2 hidden=16 average=0.9 reuse=1"
SMALL = [word for key in KEYS.split() for word in ("--set", key)]
FLOW = "flow.safetensors"
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "boltzport", "train", "gmm-2d", "--seed", "3", "--no-page", *SMALL]


def metrics(path: Path) -> list[dict]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def call(*arguments: object, directory: Path) -> subprocess.CompletedProcess:
    command = [*COMMAND, *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=ENVIRONMENT, cwd=directory, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A run that nothing interrupts."""
    path = tmp_path_factory.mktemp("whole") / "run"
    done = call("--out", path, "--json", directory=path.parent)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["state"] == "done"
    assert found["step"] == 4
    assert found["target_evaluations"] == 8000
    # Not a terminal: a line for the start, and one a step with an estimate.
    assert done.stderr.startswith("training gmm-2d with cmt: 4 steps")
    lines = [line for line in done.stderr.splitlines() if line.startswith("step")]
    assert [line.split()[1] for line in lines] == ["1/4", "2/4", "3/4", "4/4"]
    assert all("left" in line and "ESS" in line for line in lines)
    return path


def test_the_files_of_a_run(whole: Path) -> None:
    names = "config.toml metrics.jsonl ledger.json status.json flow.safetensors checkpoint.pt run.log"
    names += " checkpoint.previous.pt checksums.json"
    assert {path.name for path in whole.iterdir()} == set(names.split())
    assert json.loads((whole / "ledger.json").read_text())["training"] == 8000
    assert json.loads((whole / "status.json").read_text())["state"] == "done"
    rows = metrics(whole)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert [row["evaluations"] for row in rows] == [2000, 4000, 6000, 8000]
    wanted = {"trust_region_multiplier", "entropy_multiplier", "alpha", "beta", "entropy", "step_ess", "ess", "log_z"}
    assert wanted | {"gradient_norm"} <= set(rows[0])
    assert all(row[key] is not None for row in rows for key in wanted)
    assert "step 4" in (whole / "run.log").read_text()


@pytest.mark.slow
def test_killed_and_resumed_it_ends_in_the_same_bits(whole: Path, tmp_path: Path) -> None:
    path, moment, kills = tmp_path / "run", random.Random(7), 0
    while True:
        command = [*COMMAND, "--out", str(path), *(["--resume"] if path.exists() else [])]
        process = subprocess.Popen(command, env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.PIPE)
        if kills < 4:
            # The first is killed before its first step ends, the others somewhere in the step after their first.
            awaited = path / "config.toml" if kills == 0 else path / "metrics.jsonl"
            before = awaited.stat().st_mtime_ns if awaited.exists() and kills else 0
            while not awaited.exists() or awaited.stat().st_mtime_ns == before:
                time.sleep(0.005)
            time.sleep(moment.uniform(0.0, 0.3))
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=300)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, errors
        kills += 1
    assert kills >= 2
    assert metrics(path) == metrics(whole)
    for left, right in zip(load_flow(path / FLOW).parameters(), load_flow(whole / FLOW).parameters(), strict=True):
        assert torch.equal(left, right)


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [*COMMAND, "--out", str(path), "--set", "steps=500"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    while not (path / "metrics.jsonl").exists():
        time.sleep(0.05)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    assert f"Resume with: boltzport train --resume --out {path}" in errors
    status = json.loads((path / "status.json").read_text())
    assert status["state"] == "interrupted"
    assert status["step"] == len(metrics(path)) >= 1


def test_a_full_disk_is_said_and_the_former_files_stay(whole: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: what is written past it fails in the same way."""
    path = tmp_path / "run"
    limit = (whole / "checkpoint.pt").stat().st_size // 2

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [*COMMAND, "--out", str(path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, preexec_fn=small_disk)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "checkpoint.pt cannot be written" in done.stderr
    # With room again it begins anew and ends as if nothing had been.
    assert not (path / "checkpoint.pt").exists()
    assert call("--out", path, "--resume", directory=tmp_path).returncode == 0
    assert metrics(path) == metrics(whole)


def test_toys_need_no_openmm(whole: Path, tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('openmm', 'mdtraj', 'PeptideBuilder', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "import boltzport.training.methods, boltzport.targets, boltzport.flows, boltzport.experiments\n"
        "from boltzport.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    path = tmp_path / "run"
    command = [sys.executable, "-c", code, "train", "gmm-2d", "--seed", "3", "--no-page", *SMALL, "--out", str(path)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert metrics(path) == metrics(whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "expected a system"),
        (["train", "gmm-2d", "--set", "trust_regoin=1"], "did you mean trust_region?"),
        (["train", "gmm-2d", "--preset", "paper"], "the paper has no gmm-2d"),
        (["train", "gmm-2d", "--budget", "10"], "expected at least 5000 evaluations"),
        (["train", "--resume", "--out", "nowhere"], "nowhere does not exist"),
        (["train", "gmm-2d", "--resume", "--out", "nowhere"], "nowhere does not exist"),
        (["train", "gmm-2d", "--out", "."], "is not empty"),
    ],
)
def test_bad_requests_are_one_line(arguments: list[str], message: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "something").touch()
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_a_budget_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run"
    done = call("--out", path, "--budget", "7000", "--json", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target_evaluations"] <= 7000


def test_a_run_ends_with_its_page(tmp_path: Path) -> None:
    path = tmp_path / "run"
    command = [word for word in COMMAND if word != "--no-page"]
    done = subprocess.run([*command, "--out", str(path)], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "ess" in done.stdout
    assert f"page: {path / 'report.html'}" in done.stdout
    assert "</html>" in (path / "report.html").read_text()
    evaluation = json.loads((path / "evaluation.json").read_text())
    assert evaluation["samples"] == 100_000
    assert evaluation["target_evaluations"] == 8000
    assert json.loads((path / "ledger.json").read_text())["evaluation"] == 100_000
    # The last line has the ESS of the evaluation, not that of the last step's few samples.
    ess = min(evaluation["ess"], evaluation["ess_unclipped"])
    assert done.stdout.splitlines()[-1].endswith(f", ESS {ess:.1%})")
