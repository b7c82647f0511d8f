"""Laws of the effective size from errors of repeated runs, and of what the race observes."""

import math

import numpy as np
import pytest

from boltzport.bench.effective import effective_size, profile_errors, ratio_variance
from boltzport.bench.observed import BINS, Part, Torsions, find_truth, histogram
from boltzport.bench.race import break_even
from boltzport.bench.track import Budget, Cost, Tracker

TRUTH = np.array([0.55, 0.3, 0.1, 0.05])
ONE = Torsions(("A.chi1",), (0,), ())


def chains(stay: float, *, runs: int, length: int, seed: int) -> np.ndarray:
    """Estimates of runs of a chain that keeps its state with a probability, and draws a new one otherwise.

    The autocorrelation of any function of its state falls as stay^t.
    """
    random = np.random.default_rng(seed)
    drawn = random.choice(len(TRUTH), size=(runs, length), p=TRUTH)
    renewed = random.random((runs, length)) >= stay
    renewed[:, 0] = True
    last = np.maximum.accumulate(np.where(renewed, np.arange(length), 0), axis=1)
    states = np.take_along_axis(drawn, last, axis=1)
    return np.stack([(states == state).mean(1) for state in range(len(TRUTH))], axis=1)


@pytest.mark.parametrize("n", [50, 2000])
def test_independent_draws_are_worth_their_number(n: int) -> None:
    estimates = np.random.default_rng(n).multinomial(n, TRUTH, size=400) / n
    found = effective_size(estimates, TRUTH)
    assert found.size == pytest.approx(n, rel=0.12)
    assert 0.02 < found.error < 0.12


def test_weighted_draws_are_worth_less_and_rescaled_weights_the_same() -> None:
    random = np.random.default_rng(1)
    states = random.choice(len(TRUTH), size=(300, 500), p=TRUTH)
    weights = random.lognormal(0.0, 1.0, size=states.shape)
    each = [(weights * (states == state)).sum(1) / weights.sum(1) for state in range(len(TRUTH))]
    expected = 500 * math.exp(-1.0)
    assert effective_size(np.stack(each, axis=1), TRUTH).size == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("stay", [0.5, 0.95])
def test_a_chain_of_known_autocorrelation_is_worth_what_theory_says(stay: float) -> None:
    found = effective_size(chains(stay, runs=300, length=4000, seed=2), TRUTH)
    assert found.size == pytest.approx(4000 * (1 - stay) / (1 + stay), rel=0.12)
    assert found.bias < 0.05


def test_the_error_of_the_effective_size_covers_its_scatter() -> None:
    found = [effective_size(chains(0.5, runs=8, length=300, seed=seed), TRUTH) for seed in range(40)]
    scatter = np.std(np.log([one.size for one in found]), ddof=1)
    assert 0.6 < np.mean([one.error for one in found]) / scatter < 1.7


def test_more_samples_of_a_biased_sampler_are_worth_no_more() -> None:
    wrong = np.array([0.45, 0.4, 0.1, 0.05])
    random = np.random.default_rng(3)
    few, many = (effective_size(random.multinomial(n, wrong, size=50) / n, TRUTH) for n in (10_000, 1_000_000))
    limit = 1.0 / np.mean((wrong - TRUTH) ** 2 / (TRUTH * (1 - TRUTH)))
    assert many.size == pytest.approx(limit, rel=0.05)
    assert few.size == pytest.approx(limit, rel=0.1)
    assert many.bias > 0.99


def test_a_sampler_that_never_leaves_its_basin_does_not_gain() -> None:
    stuck = np.tile(np.array([1.0, 0.0, 0.0, 0.0]), (8, 1))
    assert effective_size(stuck, TRUTH).size < 4.0


def test_errors_of_the_truth_are_not_those_of_the_sampler() -> None:
    random, sizes = np.random.default_rng(4), []
    for _ in range(60):
        known = random.multinomial(4000, TRUTH) / 4000
        estimates = random.multinomial(1000, TRUTH, size=20) / 1000
        sizes.append(1 / effective_size(estimates, known, known * (1 - known) / 4000).size)
    assert 1 / np.mean(sizes) == pytest.approx(1000, rel=0.12)


def test_the_variance_of_ratios_is_that_of_weighted_means() -> None:
    random = np.random.default_rng(5)
    weights = random.gamma(2.0, size=(2000, 16, 30))
    inside = random.random(weights.shape) < 0.3
    sums, totals = (weights * inside).sum(2), weights.sum(2)
    scatter = (sums.sum(1) / totals.sum(1)).var()
    found = np.mean([ratio_variance(each[:, None], total)[0] for each, total in zip(sums, totals, strict=True)])
    assert found == pytest.approx(scatter, rel=0.1)


def test_a_missed_basin_makes_the_profile_worse() -> None:
    truth = np.array([0.6, 0.3, 0.099, 0.001])
    noisy, missing = np.array([0.58, 0.32, 0.0988, 0.0012]), np.array([0.6, 0.301, 0.099, 0.0])
    errors = profile_errors(np.stack([truth, noisy, missing]), truth, ceiling=6.0)
    assert errors[0] == 0.0
    assert errors[1] < errors[2]
    beyond = profile_errors(np.array([0.6, 0.301, 0.099, 0.0]), truth, ceiling=5.0)
    assert beyond < 0.01, "a bin above the ceiling counts"


@pytest.mark.parametrize(
    ("first", "rate", "other_first", "other_rate"), [(1e6, 0.5, 300.0, 1e-3), (50.0, 3.0, 0.0, 2.0)]
)
def test_where_a_training_has_paid_both_cost_the_same(
    first: float, rate: float, other_first: float, other_rate: float
) -> None:
    count = break_even(first, rate, other_first, other_rate)
    assert count is not None
    assert first + count / rate == pytest.approx(other_first + count / other_rate)
    assert break_even(other_first, rate, first, other_rate) == 0.0
    assert break_even(first, other_rate, other_first, rate) is None


def wells(random: np.random.Generator, n: int, *, turn: float) -> np.ndarray:
    """Angles in two wells, of 0.7 and 0.3, turned on the circle."""
    centres = np.where(random.random(n) < 0.7, -1.5, 1.0)
    return np.mod(random.normal(centres, 0.4) + turn + math.pi, 2 * math.pi) - math.pi


@pytest.mark.parametrize("turn", [0.0, 1.9, -2.4])
def test_the_slowest_torsion_has_the_highest_barrier(turn: float) -> None:
    random = np.random.default_rng(6)
    flat = random.uniform(-math.pi, math.pi, 20_000)
    low = np.where(random.random(20_000) < 0.3, flat, wells(random, 20_000, turn=0.5))
    part = Part(np.stack([flat, low, wells(random, 20_000, turn=turn)], axis=1), None)
    torsions = Torsions(("A.chi1", "A.chi2", "A.chi3"), (0, 1, 2), ())
    parts = [(Part(part.torsions[block::10], None), block) for block in range(10)]
    truth = find_truth(torsions, parts, blocks=10, source="test")
    assert truth.torsion == "A.chi3"
    populations = np.sort(truth.well_sums(truth.profile))
    assert populations == pytest.approx([0.3, 0.7], abs=0.02)
    assert truth.populations_variance[-2:] == pytest.approx(0.21 / 20_000, rel=0.9)
    expected = -math.log(1e-9 + min(_density(x) for x in np.linspace(-1.5, 1.0, 100))) + math.log(_density(-1.5))
    assert truth.barrier == pytest.approx(expected, abs=1.0)


def _density(x: float) -> float:
    return 0.7 * math.exp(-((x + 1.5) ** 2) / 0.32) + 0.3 * math.exp(-((x - 1.0) ** 2) / 0.32)


def test_a_track_has_the_weighted_means_of_its_parts() -> None:
    random = np.random.default_rng(7)
    angles, log_weights = wells(random, 4000, turn=0.3), random.normal(size=4000)
    truth = find_truth(
        ONE, [(Part(angles[block::8, None], None), block) for block in range(8)], blocks=8, source="test"
    )
    for shift in (0.0, 700.0):
        tracker = Tracker(ONE, truth)
        for start in range(0, 4000, 500):
            rows = slice(start, start + 500)
            spent = Cost(1000.0 + 2 * start, 0.1 * start)
            tracker.add(Part(angles[rows, None], log_weights[rows] + shift), spent)
        track = tracker.track(Cost(10.0, 1.0))
        weights = np.exp(log_weights)
        assert track.profile[-1] == pytest.approx(histogram(angles, weights) / weights.sum())
        assert track.profile[0] == pytest.approx(histogram(angles[:500], weights[:500]) / weights[:500].sum())
        assert track.formula == pytest.approx(weights.sum() ** 2 / (weights**2).sum())
        assert (track.frames, track.evaluations[-1], len(track.profile[0])) == (4000, 8000.0, BINS)
        assert track.populations[-1][-2:] == pytest.approx(truth.well_sums(track.profile[-1]))


def test_frames_of_many_chains_are_taken_apart() -> None:
    random = np.random.default_rng(8)
    constant = wells(random, 16, turn=0.0)
    truth = find_truth(
        ONE, [(Part(wells(random, 500, turn=0.0)[:, None], None), block) for block in range(8)], blocks=8, source="test"
    )
    tracker = Tracker(ONE, truth, chains=16)
    for step in range(100):
        tracker.add(Part((constant + random.normal(0.0, 1e-3, 16))[:, None], None), Cost(step, step))
    assert tracker.track(Cost(0.0, 0.0)).formula < 40.0, "sixteen chains that never move"


def test_a_budget_counts_whichever_is_spent_first() -> None:
    assert Budget(seconds=10.0).part(Cost(1e9, 4.0)) == pytest.approx(0.4)
    assert Budget(evaluations=1e3).part(Cost(900.0, 1e6)) == pytest.approx(0.9)
    assert Budget(seconds=10.0, evaluations=1e3).part(Cost(500.0, 20.0)) == 1.0
