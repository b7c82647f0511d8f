"""What a training shows: the step of about how many, and the time that is left."""

import functools
import io
import json
import time
from pathlib import Path

import pytest
from rich.console import Console

from boltzport.experiments import display as shown
from boltzport.experiments import request, run_training
from boltzport.experiments.compare import compare
from boltzport.experiments.display import Display, Whole, step_in_words
from boltzport.experiments.remaining import Remaining
from boltzport.reporting import read_run
from boltzport.reporting.findings import notices
from boltzport.training import StepInfo

ANNEALING, REFINING = ("fit", 100), ("refine", 40)
ARRIVING = "arrive=true steps=60 gradient_steps=15 buffer_size=2000 batch_size=200 pairs=2 hidden=16 trust_region=0.2"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shown, "time", clock)
    return clock


def row(step: int, **values: float) -> StepInfo:
    return StepInfo(step=step, gradient_steps=10 * step, **values)


def estimated(*steps: tuple[tuple[str, int], float]) -> Remaining:
    remaining = Remaining()
    for stage, seconds in steps:
        remaining.stage(*stage)
        remaining.step(seconds)
    return remaining


def test_the_first_step_counts_only_as_long_as_it_is_alone() -> None:
    assert Remaining().left(7) == 0.0
    assert estimated((ANNEALING, 50.0)).left(3) == 150.0
    assert estimated((ANNEALING, 50.0), (ANNEALING, 2.0)).left(3) == 6.0


def test_recent_steps_count_and_single_slow_ones_do_not() -> None:
    slow = [(ANNEALING, 9.0)] * 30
    assert estimated(*slow, *[(ANNEALING, 2.0)] * 5, (ANNEALING, 80.0)).left(10) == 20.0


def test_steps_of_another_kind_do_not_count() -> None:
    annealed = [(ANNEALING, 50.0), *[(ANNEALING, 2.0)] * 20]
    assert estimated(*annealed, (REFINING, 7.0)).left(10) == 70.0
    assert estimated(*annealed, (REFINING, 7.0), (REFINING, 5.0), (REFINING, 6.0)).left(10) == 55.0
    # The same stage with another number of gradient steps is another kind as well.
    assert estimated(*annealed, (("fit", 150), 3.0)).left(10) == 30.0


def test_lines_say_of_about_how_many_where_it_is_not_the_plan(clock: Clock, capsys) -> None:
    display = Display(90, left=30)
    with display.shown():
        for step, seconds, left in ((1, 60.0, 24), (2, 3.0, 20), (3, 3.0, 18), (4, 3.0, 86)):
            display.stage("fit", 100, 100)
            clock.now += seconds
            display.step(row(step, ess=0.5), left=left)
    assert capsys.readouterr().err.splitlines() == [
        "step 1 of about 25  1:00 done, 24:00 left  ESS 50.0%",
        "step 2 of about 22  1:03 done, 1:00 left  ESS 50.0%",
        "step 3 of about 21  1:06 done, 0:54 left  ESS 50.0%",
        "step 4/90  1:09 done, 4:18 left  ESS 50.0%",
    ]


def test_a_resumed_training_counts_its_own_steps_alone(clock: Clock, capsys) -> None:
    display = Display(20, done=15)
    clock.now += 4.0
    display.step(row(16))
    assert capsys.readouterr().err.startswith("step 16/20  0:04 done, 0:16 left")


@pytest.mark.parametrize("resumed", [False, True])
def test_only_a_training_from_the_start_is_estimated_by_its_first_step(clock: Clock, capsys, *, resumed: bool) -> None:
    """The first step of a resumed one may be the renewal of a half of the flow, which takes as long as many others."""
    display = Display(20, done=15 if resumed else 0, left=5 if resumed else None)
    with display.shown():
        for done in (0, 10, 20):
            display.stage("stiff", done, 100)
            clock.now += 30.0
    lines = capsys.readouterr().err.splitlines()
    assert "stiff 20%" in lines[-1]
    assert ("left" in lines[-1]) != resumed


@pytest.mark.parametrize("inner", [False, True])
def test_bars_show_the_same(monkeypatch, *, inner: bool) -> None:
    written = io.StringIO()
    console = functools.partial(Console, file=written, force_terminal=True, width=200)
    monkeypatch.setattr(shown, "Console", console)

    def run(display: Display) -> None:
        with display.shown():
            display.stage("fit", 100, 100)
            display.step(row(1, ess=0.25), left=24)
            # Bars are drawn ten times a second.
            time.sleep(0.3)

    if inner:
        whole = Whole(3)
        with whole.shown():
            whole.begin("gmm-2d")
            run(whole.inner(90, left=30))
            whole.end("done")
    else:
        run(Display(90, left=30))
    assert "1/~25" in written.getvalue()
    assert "ESS 25.0%" in written.getvalue()
    assert "100/100" in written.getvalue()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"alpha": 0.943, "beta": 0.74}, "path 74%, T/T0 1.06"),
        ({"alpha": 0.002, "beta": 0.01}, "path 1%, T/T0 500"),
        ({"alpha": 0.0, "beta": 0.0}, ""),
        ({"alpha": 1.0, "beta": 1.0}, ""),
        ({"alpha": 0.9}, ""),
        ({"ess_torsions": 0.571, "ess_stiff": 0.744}, "torsions 57% stiff 74%"),
    ],
)
def test_metrics_tell_how_far_the_annealing_is(values: dict[str, float], said: str) -> None:
    assert step_in_words(row(3, **values)) == said


def test_a_training_that_arrives_before_its_last_step_is_done(tmp_path: Path, capsys) -> None:
    path = tmp_path / "run"
    outcome = run_training(request("gmm-2d", settings=ARRIVING.split(), seed=1), path).status
    assert outcome.state == "done"
    assert outcome.step == outcome.steps < 60
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("step")]
    assert len(lines) == outcome.step
    assert outcome.warning == ""
    assert all(" of about " in line for line in lines[1:])
    assert f"step {outcome.step} of about {outcome.step} " in lines[-1]
    assert "0:00 left" in lines[-1]
    status = json.loads((path / "status.json").read_text())
    assert (status["state"], status["step"], status["steps"]) == ("done", outcome.step, outcome.step)
    assert notices(read_run(path)) == []
    said = compare([path]).targets[0].notices()
    assert not any("at step" in notice for notice in said)
    # Nothing is left to be resumed.
    again = run_training(request("gmm-2d", settings=ARRIVING.split(), seed=1), path, resume=True).status
    assert (again.state, again.step, again.steps) == ("done", outcome.step, outcome.step)
    assert capsys.readouterr().err.splitlines()[-1] == "training gmm-2d with cmt: all steps are done"


def test_an_interrupted_training_says_of_how_many(tmp_path: Path, monkeypatch) -> None:
    ended = Display.step

    def interrupting(display: Display, info: StepInfo, **known: int) -> None:
        ended(display, info, **known)
        if info.step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Display, "step", interrupting)
    outcome = run_training(request("gmm-2d", settings=ARRIVING.split(), seed=1), tmp_path / "run").status
    assert (outcome.state, outcome.step) == ("interrupted", 2)
    assert 2 < outcome.steps < 60
    assert json.loads((tmp_path / "run" / "status.json").read_text())["steps"] == outcome.steps


def test_start_up_is_left_out_of_the_estimate() -> None:
    remaining = Remaining()
    for done, at in ((0, 0.0), (1, 50.0), (41, 54.0), (100, 60.0)):
        remaining.stage("fit", 100, done=done, at=at)
    remaining.step(60.0)
    # Fifty seconds of compilation, then ten for 99 of 100.
    assert remaining.left(99) == pytest.approx(1000.0)
    remaining.stage("fit", 100, done=100, at=70.0)
    remaining.step(12.0)
    assert remaining.left(1) == 12.0


def test_there_is_an_estimate_before_the_first_step_is_done(clock: Clock, capsys) -> None:
    display = Display(10)
    with display.shown():
        for done, seconds in ((0, 40.0), (1, 30.0), (51, 5.0), (60, 5.0)):
            clock.now += seconds
            display.stage("fit", done, 100)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "  in step 1: fit 0%"
    assert second.startswith("  in step 1: fit 1%")
    capsys.readouterr()
    clock.now += 25.0
    display.stage("fit", 61, 100)
    assert "about 9:" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_narrow_terminal_keeps_the_times(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    bars = shown._bars(console)
    note = "ESS 5.8%  log Z -178.634  entropy -414.20  multipliers 12.2, 0.003  path 8%, T/T0 1"
    bars.add_task("run", total=45, completed=1, note=note, about="~", end=bars.get_time() + 65.0)
    console.print(bars.get_renderable())
    (line,) = console.file.getvalue().splitlines()
    assert "1/~45" in line
    assert "0:00:0" in line
    assert "1:0" in line.split("0:00:0")[1]
    assert "ESS" in line or width == 60
