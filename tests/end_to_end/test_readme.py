"""What the README shows must work."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL))
def test_python_examples_run(code: str) -> None:
    exec(compile(code, "README.md", "exec"), {})


def test_inspect_prints_what_the_readme_shows(capfd: pytest.CaptureFixture[str], monkeypatch) -> None:
    from boltzport.cli import main

    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit):
        main(["inspect", "alanine-dipeptide"])
    shown = README.split("What `boltzport inspect alanine-dipeptide` prints:\n\n")[1].split("\n\n")[0]
    printed = capfd.readouterr().out
    # The last digits of the parity check are rounding, which differs between machines.
    before = [[line.split() for line in text.split("parity")[0].splitlines()] for text in (printed, shown)]
    assert before[0] == before[1]
    assert "agrees with OpenMM" in printed
