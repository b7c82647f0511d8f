"""What the README shows must work."""

import re
import warnings
from pathlib import Path

import pytest

import boltzport as bp
from tiny import CODE

README = (Path(__file__).parents[2] / "README.md").read_text()
MOLECULES = (Path(__file__).parents[2] / "docs" / "molecules.md").read_text()


@pytest.mark.slow
def test_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another, as a reader types them; those that train do so with tiny settings."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    assert 'preset="quick", seed=0' in blocks[0]
    blocks[0] = blocks[0].replace('preset="quick", seed=0', f"{CODE}, progress=False").replace("100_000", "400")
    blocks[0] = blocks[0].replace("model.evaluate()", "model.evaluate(n=400)")
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bp.WeightsWarning)
        for block in blocks:
            exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "aldp.html").is_file()
    assert bp.load(tmp_path / "runs" / "aldp").results["ess"].value == names["results"]["ess"].value


def test_inspect_prints_what_the_documentation_shows(capfd: pytest.CaptureFixture[str], monkeypatch) -> None:
    from boltzport.cli import main

    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        main(["inspect", "alanine-dipeptide"])
    shown = MOLECULES.split("What `boltzport inspect alanine-dipeptide` prints:\n\n")[1].split("\n\n")[0]
    printed = capfd.readouterr().out
    # The last digits of the parity check are rounding, which differs between machines.
    before = [[line.split() for line in text.split("parity")[0].splitlines()] for text in (printed, shown)]
    assert before[0] == before[1]
    assert "agrees with OpenMM" in printed
