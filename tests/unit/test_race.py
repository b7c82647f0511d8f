"""The race itself, with samplers whose worth is known."""

import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from boltzport.bench.contenders import Streamed
from boltzport.bench.observed import Part, Torsions, find_truth
from boltzport.bench.race import Race, run_race
from boltzport.bench.sampling import own_error
from boltzport.bench.standings import race_table, write_race
from boltzport.bench.track import Budget, Cost

ONE = Torsions(("A.chi1",), (0,), ())
EACH = 50
"""Number of frames of a part."""


def angles(random: np.random.Generator, n: int) -> np.ndarray:
    return np.where(random.random(n) < 0.8, random.normal(-1.5, 0.4, n), random.normal(1.0, 0.4, n))[:, None]


def contender(name: str, *, price: int, correlated: int = 1, training: float = 0.0, setup: int = 0) -> Streamed:
    """A sampler each of whose draws costs evaluations, and is repeated some times."""
    spent = itertools.count()
    total = [0]

    def open_(seed: int) -> Iterator[Part]:
        random = np.random.default_rng([seed, price])
        total[0] += setup

        def parts() -> Iterator[Part]:
            while True:
                next(spent)
                total[0] += price * EACH
                yield Part(np.repeat(angles(random, -(-EACH // correlated)), correlated, axis=0)[:EACH], None)

        return parts()

    return Streamed(name, ONE, open_, lambda: total[0], Cost(training, 2.0 * training))


@pytest.fixture(scope="module")
def race() -> Race:
    random = np.random.default_rng(1)
    parts = [(Part(angles(random, 20_000), None), block) for block in range(20)]
    truth = find_truth(ONE, parts, blocks=20, source="exact samples")
    contenders = [
        contender("flow", price=1, training=50_000.0, setup=100),
        contender("dynamics", price=1, correlated=25, setup=400),
    ]
    seen: list[tuple[str, int, int]] = []
    standings = run_race(
        contenders, truth, runs=60, budget=Budget(evaluations=60 * 2000.0), progress=lambda *each: seen.append(each)
    )
    assert {stage for stage, _, _ in seen} == {"flow", "dynamics"}
    assert max(done / total for _, done, total in seen) == 1.0
    return Race(
        system="toy", seed=0, threads=1, truth=truth, truth_error=own_error(truth), standings=standings, notes=("said",)
    )


def test_samplers_are_worth_what_they_are(race: Race) -> None:
    flow, dynamics = race.standings
    assert (flow.frames, flow.run.evaluations, flow.setup.evaluations) == (2000, 2000, 100)
    assert flow.effective == pytest.approx(2000, rel=0.35)
    assert dynamics.effective == pytest.approx(80, rel=0.35)
    assert flow.formula == pytest.approx(2000, rel=0.3)
    # Rank-normalised draws that are repeated in blocks: only the order of magnitude is known of so few.
    assert dynamics.formula is not None
    assert 30 < dynamics.formula < 300
    assert dynamics.mixing is not None
    assert dynamics.mixing.evaluations == pytest.approx(25, rel=0.5)
    assert flow.curve[0].error > 2 * flow.curve[-1].error
    assert flow.curve[-1].error < 0.5 * dynamics.curve[-1].error


def walkers(moves: float) -> Streamed:
    """Four chains that draw a new angle with a probability, and stay otherwise."""
    total = [0]

    def open_(seed: int) -> Iterator[Part]:
        random = np.random.default_rng([seed, 7])

        def parts() -> Iterator[Part]:
            now = angles(random, 4)
            while True:
                total[0] += 20
                now = np.where(random.random((4, 1)) < moves, angles(random, 4), now)
                yield Part(now, None)

        return parts()

    return Streamed("walkers", ONE, open_, lambda: total[0], chains=4)


@pytest.mark.parametrize(("moves", "steps", "stuck"), [(0.2, 9.0, False), (1e-9, 0.0, True)])
def test_the_mixing_time_is_that_of_the_chain_in_evaluations(moves: float, steps: float, stuck: bool) -> None:
    random = np.random.default_rng(1)
    truth = find_truth(ONE, [(Part(angles(random, 20_000), None), block) for block in range(20)], blocks=20, source="")
    (found,) = run_race(
        [walkers(moves)], truth, runs=8, budget=Budget(evaluations=8 * 20_000.0), progress=lambda *_each: None
    )
    assert found.mixing is not None
    assert found.stuck == stuck
    if stuck:
        # 1000 steps of five evaluations: a chain that never moves mixes in no less than a good part of them.
        assert found.mixing.evaluations > 1000
        assert found.mixing.rhat > 2.0
    else:
        # A correlation of 0.8 to the power of the lag sums to (1 + 0.8) / (1 - 0.8) steps.
        assert found.mixing.evaluations == pytest.approx(5 * steps, rel=0.25)
        assert found.mixing.rhat < 1.05


def test_a_training_is_paid_by_its_samples(race: Race) -> None:
    flow, dynamics = race.standings
    found = race.payback(flow, dynamics).evaluations
    assert found is not None
    # One evaluation for a sample against 25, and 50 100 against 400 before the first.
    assert found == pytest.approx((50_100 - 400) / 24, rel=0.5)
    assert race.payback(dynamics, flow).evaluations is None


def test_its_numbers_its_table_and_its_figure_are_written(race: Race, tmp_path: Path) -> None:
    path = write_race(race, tmp_path / "race")
    assert path.read_bytes().startswith(b"\x89PNG")
    record = json.loads((tmp_path / "race" / "sampling.json").read_text())
    assert record == race.to_json()
    assert record["payback"]["flow"]["dynamics"]["evaluations"] > 0
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(race_table(race))
    text = console.export_text()
    assert "flow has paid for its training" in text
    assert "slowest torsion A.chi1" in text
    assert "mixing time" in text
    assert record["contenders"]["dynamics"]["mixing"]["bound"] is False
