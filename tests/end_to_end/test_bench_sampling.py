"""`boltzport bench sampling`: a tiny race from the command line, and its mistakes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from boltzport.__main__ import main
from boltzport.bench.sampling import NAMES, Rules
from boltzport.core.errors import InputError

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
# With fewer chains, a smaller pilot and a shorter warm-up than a user has.
SHORT = """
import sys
from functools import partial
from boltzport.__main__ import main
from boltzport.bench import contenders, dynamics
from boltzport.ensembles import chain
planning = sys.modules["boltzport.ensembles.choose"]
planning.survey = partial(planning.survey, population=64)
dynamics.EQUILIBRATION, dynamics.WARM_UP, dynamics.LADDERS = 0.1, 8, 2
contenders.CHAINS, contenders.BATCH, chain.WARM_UP = 8, 256, 4
main()
"""


@pytest.mark.slow
def test_a_tiny_race_has_every_contender(tmp_path: Path) -> None:
    names = ",".join(name for name in NAMES if name != "mixed")
    words: list[object] = ["bench", "sampling", "--system", "aldp", "--evaluations", 4000, "--repeats", 4]
    words += ["--truth", 20_000, "--anneal", 1, "--seed", 3, "--contenders", names, "--out", tmp_path, "--json"]
    command = [sys.executable, "-c", SHORT, *map(str, words)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "sampling.json").read_text())
    assert set(found["contenders"]) == {*NAMES} - {"mixed"}
    assert found["torsion"] == "ALA2.phi"
    assert (tmp_path / "profile-error.png").read_bytes().startswith(b"\x89PNG")
    for name, record in found["contenders"].items():
        assert record["runs"] == 4
        assert 1000 <= record["run"]["evaluations"] <= 8000, name
        assert 0.0 < record["effective"] < 5.0 * max(record["frames"], 20), name
        trained = name in ("flow", "annealed", "chains")
        assert (record["training"]["evaluations"] > 9e6) == trained
        assert np.all(np.diff(record["curve"]["evaluations"]) >= 0)
    flow, langevin = found["contenders"]["flow"], found["contenders"]["Langevin"]
    # A flow with an ESS of 99 % gives one independent sample per evaluation; dynamics needs hundreds for each.
    assert 0.3 < flow["per_evaluation"] < 4.0
    assert langevin["per_evaluation"] < 0.05
    assert langevin["curve"]["error"][-1] > flow["curve"]["error"][-1]
    assert found["payback"]["flow"]["Langevin"]["evaluations"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected --system SYSTEM"),
        (("somewhere", "--system", "aldp"), "got both"),
        (("--system", "gmm-40"), "no such run: gmm-40"),
        (("--system", "aldp", "--repeats", "2"), "at least 4 independent runs, got 2"),
        (("--system", "aldp", "--seconds", "0"), "expected a positive budget"),
        (("--system", "aldp", "--contenders", "flow,magic"), "got magic"),
        (("--system", "aldp", "--truth", "10"), "--truth: expected at least 1000"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "sampling", *arguments])
    assert exit_.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_budget_is_limited() -> None:
    with pytest.raises(InputError, match="got none"):
        Rules(seconds=float("inf"))
