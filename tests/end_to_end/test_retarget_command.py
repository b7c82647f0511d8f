"""`boltzport retarget` as a user types it, on the flow of the dipeptide that ships."""

import json
from pathlib import Path

import pytest

from boltzport.cli import main

RUN = "alanine-dipeptide"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected another --temperature, --forcefield or --energy"),
        (["--temperature", "-3"], "expected a temperature above 0 K"),
        (["--energy", "gfn3"], "gfn3"),
        (["--temperature", "350", "--budget", "10"], "expected at least 4000 evaluations"),
        (["--temperature", "350", "--overlap", "2"], "expected a fraction from 0 to 1"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str, tmp_path: Path, capfd) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["retarget", RUN, "--out", str(tmp_path / "run"), *arguments])
    assert ended.value.code == 2
    said = capfd.readouterr().err.strip().splitlines()
    assert message in said[-1]
    assert not (tmp_path / "run").exists(), "a mistake leaves no directory"


@pytest.mark.slow
def test_a_warmer_ensemble_with_its_free_energy_difference(tmp_path: Path, capfd) -> None:
    run = tmp_path / "warm"
    with pytest.raises(SystemExit) as ended:
        main(["retarget", RUN, "--temperature", "330", "--budget", "2e4", "-n", "4000", "--json", "--out", str(run)])
    assert ended.value.code in (0, None)
    printed = json.loads(capfd.readouterr().out)
    assert printed["total_evaluations"] <= 2e4
    # A cubic through the differences to 350 and 450 K (docs/retargeting.md, by Bennett's acceptance ratio) whose slope
    # at 300 K is the mean reduced energy, -39.45, over the temperature.
    assert printed["log_z_difference"] == pytest.approx(-3.46, abs=0.05)
    with pytest.raises(SystemExit) as ended:
        main(["sample", str(run), "-n", "200", "-o", str(tmp_path / "warm.dcd"), "--json"])
    assert json.loads(capfd.readouterr().out)["samples"] == 200
