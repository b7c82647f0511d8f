"""`boltzport train` on two processes, with torchrun and without: one run, whatever ends first."""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

KEYS = "steps=4 gradient_steps=15 buffer_size=2000 batch_size=200 pairs=1 hidden=8 average=0.9 reuse=1"
SMALL = [word for key in KEYS.split() for word in ("--set", key)]
TRAIN = [sys.executable, "-m", "boltzport", "train"]
COMMAND = [*TRAIN, "gmm-2d", "--seed", "3", "--no-page", *SMALL]
LOST = "another of the 2 processes of this run has ended"
KILLS = int(os.environ.get("BOLTZPORT_KILLS", "2"))
"""Number of trainings in which a process is killed, one after the other; more for a longer look."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(command: list[str], *, world: int = 2, port: int | None = None) -> list[subprocess.Popen]:
    """Start the ranks as torchrun does."""
    port = port or free_port()
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return [
        subprocess.Popen(
            command,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]


def ended(processes: list[subprocess.Popen]) -> tuple[list[int], list[str]]:
    """Exit codes, and what each wrote to standard error."""
    errors = [process.communicate(timeout=500)[1] for process in processes]
    return [process.returncode for process in processes], errors


def metrics(path: Path) -> list[dict]:
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def messages(errors: list[str]) -> list[str]:
    return [line for text in errors for line in text.splitlines() if line.startswith("boltzport: ")]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on two ranks that nothing interrupts, and one started by torchrun is the same."""
    path = tmp_path_factory.mktemp("ranks") / "run"
    codes, errors = ended(start([*COMMAND, "--out", str(path)]))
    assert codes == [0, 0], errors
    assert errors[0].startswith("training gmm-2d with cmt on 2 processes: 4 steps")
    assert errors[1] == ""
    return path


def test_one_run_is_written_and_its_ledger_is_the_sum(whole: Path) -> None:
    assert json.loads((whole / "ledger.json").read_text())["training"] == 8000
    assert [row["evaluations"] for row in metrics(whole)] == [2000, 4000, 6000, 8000]
    saved = torch.load(whole / "checkpoint.pt", weights_only=True)
    assert len(saved["generators"]) == 2
    assert not torch.equal(*saved["generators"])
    assert set(saved["parts"]["formers.kept.0.1.0"]) == {1000}
    assert not list(whole.glob(".boltzport-*"))


def test_torchrun_starts_it(whole: Path, tmp_path: Path) -> None:
    run = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    path = tmp_path / "run"
    done = subprocess.run(
        [*run, *COMMAND[1:], "--out", str(path), "--json"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["target_evaluations"] == 8000
    assert metrics(path) == metrics(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_rank_ends_the_other_and_the_run_resumes(whole: Path, tmp_path: Path, number: int) -> None:
    """At a random moment; without torchrun, which would end the other one by a signal."""
    path, moment, victim = tmp_path / "run", random.Random(number), number % 2
    processes = start([*COMMAND, "--out", str(path)])
    rows = moment.randint(1, 3)
    while not (path / "metrics.jsonl").exists() or len(metrics(path)) < rows:
        time.sleep(0.01)
        assert all(process.poll() is None for process in processes)
    time.sleep(moment.uniform(0.0, 0.5))
    processes[victim].send_signal(signal.SIGKILL)
    began = time.monotonic()
    codes, errors = ended(processes)
    if codes[1 - victim] == 0:
        pytest.skip("the run was done before the signal came")
    assert time.monotonic() - began < 60
    assert codes[victim] == -signal.SIGKILL
    assert codes[1 - victim] == 1
    (message,) = messages(errors)
    assert LOST in message
    assert f"Resume with: boltzport train --resume --out {path}" in message
    assert "Traceback" not in "".join(errors)
    codes, errors = ended(start([*TRAIN, "--resume", "--out", str(path), "--no-page"]))
    assert codes == [0, 0], errors
    assert metrics(path) == metrics(whole)


@pytest.mark.slow
def test_another_number_of_ranks_resumes_it(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    rows = metrics(path)
    # As if it had been interrupted after its third step.
    (path / "checkpoint.previous.pt").replace(path / "checkpoint.pt")
    (process,) = start([*TRAIN, "--resume", "--out", str(path), "--no-page"], world=1)
    codes, errors = ended([process])
    assert codes == [0], errors
    assert metrics(path)[:3] == rows[:3]
    assert json.loads((path / "ledger.json").read_text())["training"] == 8000
    last, before = metrics(path)[-1], rows[-1]
    assert abs(last["log_z"] - before["log_z"]) < 5 * (last["log_z_error"] + before["log_z_error"])


def test_a_mistake_is_said_once() -> None:
    for words, message in (
        (["train", "gmm-2d", "--set", "trust_regoin=1"], "did you mean trust_region?"),
        (["doctor"], "`boltzport doctor` runs in one process, and 2 were started; leave out torchrun"),
    ):
        codes, errors = ended(start([*TRAIN[:-1], *words]))
        assert codes[0] == 2 or codes[1] == 2
        (line,) = messages(errors)
        assert message in line


def test_half_an_environment_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--out", str(tmp_path / "run")],
        env={key: value for key, value in os.environ.items() if key != "RANK"} | {"WORLD_SIZE": "2"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 2
    assert "RANK, MASTER_ADDR, MASTER_PORT not set; start the processes with torchrun" in done.stderr


def _namespaces() -> str:
    """Why two network namespaces cannot be made here; empty if they can."""
    if shutil.which("ip") is None:
        return "there is no ip command"
    made = subprocess.run(["ip", "netns", "add", "boltzport-probe"], capture_output=True, text=True)
    if made.returncode:
        return made.stderr.strip() or "ip netns failed"
    subprocess.run(["ip", "netns", "delete", "boltzport-probe"], check=True)
    return ""


@pytest.mark.slow
def test_two_hosts_train_together(tmp_path: Path, whole: Path) -> None:
    """Two network namespaces with a cable between them, and directories of their own, stand in for two hosts."""
    if reason := _namespaces():
        pytest.skip(f"no network namespaces can be made here: {reason}")
    names = [f"boltzport-{os.getpid()}-{rank}" for rank in range(2)]
    ends = [f"bz{os.getpid() % 100000}{rank}" for rank in range(2)]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]], check=True)
        for rank, (name, end) in enumerate(zip(names, ends, strict=True)):
            subprocess.run(["ip", "link", "set", end, "netns", name], check=True)
            inside = ["ip", "netns", "exec", name, "ip"]
            subprocess.run([*inside, "addr", "add", f"10.99.0.{rank + 1}/24", "dev", end], check=True)
            for device in (end, "lo"):
                subprocess.run([*inside, "link", "set", device, "up"], check=True)
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29517", "OMP_NUM_THREADS": "1"}
        processes = []
        for rank, name in enumerate(names):
            own = shared | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": ends[rank]}
            (tmp_path / str(rank)).mkdir()
            processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, *COMMAND, "--out", "run"],
                    cwd=tmp_path / str(rank),
                    env=os.environ | own,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        codes, errors = ended(processes)
        assert codes == [0, 0], errors
        assert metrics(tmp_path / "0" / "run") == metrics(whole)
        assert not (tmp_path / "1" / "run").exists()
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


@pytest.mark.slow
def test_an_evaluation_and_samples_are_divided(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(whole, path)
    boltzport = [sys.executable, "-m", "boltzport"]
    codes, errors = ended(start([*boltzport, "evaluate", str(path), "-n", "5001", "--transport", "50", "--json"]))
    assert codes == [0, 0], errors
    two = json.loads((path / "evaluation.json").read_text())
    assert two["samples"] == 5001
    assert json.loads((path / "ledger.json").read_text())["evaluation"] == 5001
    (process,) = start([*boltzport, "evaluate", str(path), "-n", "5001", "--transport", "50"], world=1)
    codes, errors = ended([process])
    assert codes == [0], errors
    one = json.loads((path / "evaluation.json").read_text())
    assert abs(two["log_z"] - one["log_z"]) < 5 * (two["log_z_error"] + one["log_z_error"])
    assert two["log_z"] != one["log_z"]
    codes, errors = ended(start([*boltzport, "sample", str(path), "-n", "101", "-o", str(tmp_path / "frames.npz")]))
    assert codes == [0, 0], errors
    points = np.load(tmp_path / "frames.npz")["coordinates"]
    assert points.shape == (101, 2)
    assert len(np.unique(points, axis=0)) == 101
    codes, errors = ended(start([*boltzport, "sample", str(path), "-n", "9", "-o", "x.npz", "--mode", "resampled"]))
    (line,) = messages(errors)
    assert "expected weighted samples without annealing from 2 processes; leave out --mode, or torchrun" in line


@pytest.mark.slow
def test_a_campaign_gives_whole_runs_to_the_ranks(tmp_path: Path) -> None:
    keys = "cmt.steps=2 gradient_steps=5 cmt.buffer_size=500 batch_size=100 pairs=1 hidden=8"
    settings = [word for key in keys.split() for word in ("--set", key)]
    sizes = ["--seeds", "2", "--methods", "cmt", "--budget", "2000", "-n", "1000", "--transport", "50"]
    command = [sys.executable, "-m", "boltzport", "bench", "train", "--system", "gmm-2d", *sizes, *settings]
    codes, errors = ended(start([*command, "--out", str(tmp_path / "bench"), "--json"]))
    assert codes == [0, 0], errors
    runs = [path.parent for path in (tmp_path / "bench").glob("*/config.toml")]
    assert len(runs) == 2
    assert all(json.loads((run / "status.json").read_text())["state"] == "done" for run in runs)
    # Each was trained by one process alone.
    assert all("generators" not in torch.load(run / "checkpoint.pt", weights_only=True) for run in runs)
    logs = [(tmp_path / "bench" / name).read_text() for name in ("campaign.log", "campaign.1.log")]
    assert [log.count("started: cmt gmm-2d") for log in logs] == [1, 1]


@pytest.mark.slow
def test_a_reference_is_divided_and_an_interrupt_of_one_writes_the_frames_of_all(tmp_path: Path) -> None:
    path = tmp_path / "reference"
    command = [sys.executable, "-m", "boltzport", "reference", "alanine-dipeptide", "--preset", "quick"]
    processes = start([*command, "--out", str(path), "--json"])
    errors = processes[0].stderr
    assert errors is not None
    while not errors.readline().startswith("warm-up: 300 of 300"):
        assert all(process.poll() is None for process in processes)
    # Every ladder writes a frame after two trajectories.
    time.sleep(10.0)
    processes[1].send_signal(signal.SIGINT)
    printed, said = processes[0].communicate(timeout=500)
    other = processes[1].communicate(timeout=500)
    assert processes[0].returncode == 1
    assert other == ("", "")
    record = json.loads(printed)
    assert f"interrupted: {path} holds the {record['frames']} frames sampled so far" in said
    assert record["interrupted"]
    assert record["processes"] == 2
    arrays = np.load(path / "samples.npz")
    assert np.unique(arrays["chain"], return_counts=True)[1].tolist() == [record["frames"] // 32] * 32
    assert len(np.unique(arrays["coordinates"][:, 0])) > 16
