"""`boltzport bench sampling`: a tiny race from the command line, and its mistakes."""

import json
from pathlib import Path

import numpy as np
import pytest

from boltzport.__main__ import main
from boltzport.bench import contenders, dynamics
from boltzport.bench.sampling import NAMES, Rules
from boltzport.core.errors import InputError
from boltzport.ensembles import chain


def call(*arguments: object) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["bench", "sampling", *map(str, arguments)])
    assert exit_.value.code in (0, None)


@pytest.mark.slow
def test_a_tiny_race_has_every_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dynamics, "WARM_UP", 8)
    monkeypatch.setattr(contenders, "CHAINS", 8)
    monkeypatch.setattr(contenders, "BATCH", 256)
    monkeypatch.setattr(chain, "WARM_UP", 4)
    names = ",".join(name for name in NAMES if name != "mixed")
    call(
        *("--system", "aldp", "--evaluations", 8000, "--repeats", 4, "--truth", 20_000, "--anneal", 1, "--seed", 3),
        *("--contenders", names, "--out", tmp_path / "race", "--json"),
    )
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads((tmp_path / "race" / "sampling.json").read_text())
    assert set(found["contenders"]) == {*NAMES} - {"mixed"}
    assert found["torsion"] == "ALA2.phi"
    assert (tmp_path / "race" / "profile-error.png").read_bytes().startswith(b"\x89PNG")
    for name, record in found["contenders"].items():
        assert record["runs"] == 4
        assert 2000 <= record["run"]["evaluations"] < 12_000, name
        assert 0.0 < record["effective"] < 2.5 * max(record["frames"], 20), name
        trained = name in ("flow", "annealed", "chains")
        assert (record["training"]["evaluations"] > 9e6) == trained
        assert np.all(np.diff(record["curve"]["evaluations"]) >= 0)
    flow, langevin = found["contenders"]["flow"], found["contenders"]["Langevin"]
    # A flow with an ESS of 99 % gives one independent sample per evaluation; dynamics needs hundreds for each.
    assert 0.4 < flow["per_evaluation"] < 2.5
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
