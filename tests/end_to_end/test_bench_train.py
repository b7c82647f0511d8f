"""`boltzport bench train`: one command from nothing to a page, whatever happens in between."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KEYS = "steps=3 gradient_steps=10 buffer_size=1000 batch_size=100 pairs=1 hidden=8"
SMALL = [word for key in KEYS.split() for word in ("--set", key)]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
COMMAND = [sys.executable, "-m", "boltzport", "bench", "train", "--system", "gaussian-skewed", "-n", "2000", *SMALL]


def call(*arguments: object, directory: Path) -> subprocess.CompletedProcess:
    command = [*COMMAND, *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=ENVIRONMENT, cwd=directory, capture_output=True, text=True, timeout=300)


def test_killed_and_called_again_it_does_only_the_rest(tmp_path: Path) -> None:
    arguments = ("--variants", "constraints", "--seeds", "1", "--out", "out")
    first = tmp_path / "out" / "both-seed0"
    process = subprocess.Popen([*COMMAND, *arguments], env=ENVIRONMENT, cwd=tmp_path, stderr=subprocess.DEVNULL)
    while not (tmp_path / "out" / "trust-region-seed0" / "metrics.jsonl").exists():
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    before = {path.name: path.stat().st_mtime_ns for path in first.iterdir()}
    done = call(*arguments, "--json", directory=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [run["state"] for run in found["campaign"]] == ["skipped", "done", "done", "done"]
    assert {path.name: path.stat().st_mtime_ns for path in first.iterdir()} == before
    (system,) = found["systems"]
    assert [group["settings"] for group in system["groups"]] == [
        {"trust_region": 0.3, "entropy": "auto"},
        {"trust_region": 0.3, "entropy": "inf"},
        {"trust_region": "inf", "entropy": "auto"},
        {"trust_region": "inf", "entropy": "inf"},
    ]
    assert all(group["metrics"]["target_evaluations"]["mean"] == 3000 for group in system["groups"])
    assert "</html>" in (tmp_path / "out" / "comparison" / "comparison.html").read_text()
    for name in ("work", "steps", "density_2d"):
        assert (tmp_path / "out" / "comparison" / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    lines = done.stderr.splitlines()
    assert lines[0] == "1/4 both-seed0  skipped"
    assert lines[1].startswith("2/4 trust-region-seed0  step ")


def test_a_failing_run_is_recorded_and_the_rest_is_compared(tmp_path: Path) -> None:
    # Where the configuration of the second seed belongs there is a folder.
    arguments = ("--methods", "cmt", "--seeds", "2", "--budget", "3000", "--out", "out")
    (tmp_path / "out" / "cmt-seed1").mkdir(parents=True)
    (tmp_path / "out" / "cmt-seed1" / "config.toml").mkdir()
    done = call(*arguments, directory=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "boltzport: 1 of 2 runs failed; cmt-seed1: " in done.stderr
    assert "1 (seed 0)" in done.stdout
    assert "page: out/comparison/comparison.html" in done.stdout
