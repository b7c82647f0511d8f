"""Histograms: hand-made ones, two von Mises densities, and streams that equal what was there at once."""

import math

import numpy as np
import pytest
from scipy.special import i0, i1

from boltzport.analysis.metrics import (
    BLOCKS,
    BlockedHistogram,
    Draws,
    Grid,
    HoldOut,
    Reservoir,
    chain_blocks,
    clip_count,
    clip_largest,
    divergence,
    draw_blocks,
    first_axis,
    forward_kl,
    free_energy,
    interval,
    mean_divergence,
    profile_deviation,
    profile_error,
    sample_blocks,
    torus_grid,
    total_variation,
)
from boltzport.analysis.metrics.profiles import mean_absolute_error
from boltzport.analysis.metrics.stream import Batch


def test_cells_of_a_grid_wrap_and_end() -> None:
    grid = Grid((-math.pi, 0.0), (math.pi, 2.0), (4, 2), (2 * math.pi, math.inf))
    points = np.array([[-3.0, 0.1], [3.0, 1.9], [3.0 + 2 * math.pi, 2.0], [0.1, 2.1], [math.nan, 1.0], [-3.3, 0.0]])
    assert grid.cell(points).tolist() == [0, 7, 7, -1, -1, 6]
    assert grid.area == pytest.approx(math.pi / 2)
    assert grid.edges(1).tolist() == [0.0, 1.0, 2.0]


def test_divergences_of_hand_made_histograms() -> None:
    reference, model = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.25, 0.25, 0.0, 0.5])
    assert total_variation(reference, model) == 0.5
    # An empty cell of the model counts with a density of 1e-10, as in the code of FAB and TA-BG.
    expected = 0.5 * math.log(2) + 0.25 * math.log((0.25 / 0.1 + 1e-10) / 1e-10)
    assert forward_kl(reference, model, area=0.1) == pytest.approx(expected, rel=1e-9)
    assert forward_kl(reference, reference, area=0.1) == 0.0
    assert forward_kl(model, np.full(4, 0.25), area=0.1) == pytest.approx(0.5 * math.log(2), rel=1e-8)


def test_kl_of_shifted_von_mises_is_the_formula() -> None:
    # KL of two von Mises densities: kappa I1/I0 (1 - cos(shift)); the second axis has another shift.
    kappa, shifts = 2.5, (0.7, -1.9)
    centres = torus_grid().edges()[:-1] + math.pi / 100

    def plane(first: float, second: float) -> np.ndarray:
        line = [np.exp(kappa * np.cos(centres - shift)) for shift in (first, second)]
        density = np.outer(*line).reshape(-1)
        return np.asarray(density / density.sum())

    expected = sum(kappa * i1(kappa) / i0(kappa) * (1 - math.cos(shift)) for shift in shifts)
    found = forward_kl(plane(0.0, 3.0), plane(shifts[0], 3.0 + shifts[1]), area=torus_grid().area)
    assert found == pytest.approx(expected, rel=1e-6)


def test_samples_of_von_mises_come_close_to_the_formula() -> None:
    generator = np.random.default_rng(0)
    # So flat that no cell is empty; the noise of 20 samples a cell adds one over twice that, for each of the two.
    samples, kappa, shift = 200_000, 0.5, 1.5
    histograms = []
    for centre in (3.0, 3.0 + shift):
        angles = generator.vonmises(centre, kappa, size=(samples, 2))
        angles[:, 1] = generator.vonmises(-1.0, 0.3, size=samples)
        histogram = BlockedHistogram(torus_grid(), blocks=BLOCKS)
        histogram.add(angles, sample_blocks(0, samples))
        histograms.append(histogram)
    draws = Draws(draw_blocks(BLOCKS, generator), draw_blocks(BLOCKS, generator))
    found = divergence(histograms[0], histograms[1], draws)
    expected = kappa * i1(kappa) / i0(kappa) * (1 - math.cos(shift))
    assert expected < found.kl < expected + 0.08
    assert found.kl_interval is not None
    assert found.kl_interval.lower < found.kl < found.kl_interval.upper
    assert 0.0 < found.tv < 1.0
    itself = divergence(histograms[0], histograms[0], draws)
    assert itself.kl == itself.tv == 0.0
    mean = mean_divergence([found, itself])
    assert mean.kl == pytest.approx(found.kl / 2)


def stream_of(samples: int, *, seed: int) -> Batch:
    generator = np.random.default_rng(seed)
    return Batch(
        coordinates=generator.normal(size=(samples, 2)).astype(np.float32),
        reduced_energy=generator.normal(size=samples),
        # Tails so heavy that clipping is all there is.
        log_weights=20 * generator.normal(size=samples),
        block=sample_blocks(0, samples),
    )


@pytest.mark.parametrize("size", [1, 7, 997, 40_000])
def test_a_stream_with_clipped_weights_equals_all_at_once(size: int) -> None:
    samples = 40_000 if size > 7 else 20_000
    whole = stream_of(samples, seed=1)
    grid = Grid((-2.0, -1.0), (2.0, 3.0), (5, 4))
    hold, histogram, shift = HoldOut(clip_count(samples)), BlockedHistogram(grid, blocks=BLOCKS), 0.0
    step = size if size > 7 else samples // size // 20
    for start in range(0, samples, step):
        let_go = hold.push(whole.take(np.arange(start, min(start + step, samples))))
        histogram.add(let_go.coordinates, let_go.block, np.exp(let_go.log_weights - shift))
        histogram.rescale(math.exp(-1.0))
        shift += 1.0
    held = hold.finish()
    assert held is not None
    histogram.add(held.coordinates, held.block, np.exp(held.log_weights - shift))
    weights = np.exp(clip_largest(whole.log_weights) - shift)
    expected, _, _ = np.histogram2d(
        *whole.coordinates.T.astype(np.float64), bins=(5, 4), range=((-2.0, 2.0), (-1.0, 3.0)), weights=weights
    )
    np.testing.assert_allclose(histogram.sums.sum(0), expected.reshape(-1), rtol=1e-9)
    assert histogram.outside == pytest.approx(weights.sum() - expected.sum(), rel=1e-6)


def test_nothing_is_held_back_where_nothing_is_clipped() -> None:
    batch = stream_of(100, seed=2)
    hold = HoldOut(0)
    assert hold.push(batch) is batch
    assert hold.finish() is None


def test_a_reservoir_draws_by_weight_whatever_the_batches() -> None:
    # Values 0..3 with weights 1, 2, 3, 4, of which the batches hold very different shares.
    values = np.array([0, 1, 2, 3] * 50)
    weights = 1.0 + values
    order = np.argsort(values, kind="stable")
    reservoir = Reservoir(20_000, np.random.default_rng(3))
    for part in np.array_split(order, 7):
        reservoir.add(
            Batch(
                coordinates=values[part, None].astype(np.float64),
                reduced_energy=values[part].astype(np.float64),
                log_weights=np.log(weights[part]) + 900.0,
                block=part % BLOCKS,
            )
        )
    assert reservoir.samples is not None
    shares = np.bincount(reservoir.samples.coordinates[:, 0].astype(int)) / 20_000
    np.testing.assert_allclose(shares, [0.1, 0.2, 0.3, 0.4], atol=4 * 0.5 / math.sqrt(20_000))
    np.testing.assert_array_equal(reservoir.samples.coordinates[:, 0], reservoir.samples.reduced_energy)


def test_blocks_of_chains_never_mix_chains() -> None:
    many = np.tile(np.arange(20) * 3, 5)
    blocks = chain_blocks(many)
    assert len(np.unique(blocks)) == 20
    assert all(len(np.unique(blocks[many == chain])) == 1 for chain in np.unique(many))
    few = np.repeat([4, 9], [1000, 200])
    blocks = chain_blocks(few)
    assert not set(blocks[few == 4]) & set(blocks[few == 9])
    assert len(np.unique(blocks)) == BLOCKS // 2
    assert (np.diff(blocks[few == 4]) >= 0).all()


def test_interval_of_a_mean_covers_with_few_and_many_blocks() -> None:
    generator = np.random.default_rng(5)
    for blocks in (8, 64):
        covered = 0
        for _ in range(400):
            means = generator.exponential(size=(blocks, 20)).mean(1)
            bracket = interval(means.mean(), draw_blocks(blocks, generator) @ means / blocks, blocks=blocks)
            assert bracket is not None
            covered += bracket.lower <= 1.0 <= bracket.upper
        # 95 % of 400 are 380 with a deviation of 4.4.
        assert 362 <= covered <= 396


def test_interval_of_a_divergence_covers_its_expectation() -> None:
    generator = np.random.default_rng(6)
    grid = Grid((0.0,), (1.0,), (10,))
    estimates, brackets = [], []
    for _ in range(200):
        histograms = []
        for power in (1.0, 1.3):
            histogram = BlockedHistogram(grid, blocks=BLOCKS)
            histogram.add(generator.random((1280, 1)) ** power, sample_blocks(0, 1280))
            histograms.append(histogram)
        draws = Draws(draw_blocks(BLOCKS, generator), draw_blocks(BLOCKS, generator))
        found = divergence(*histograms, draws)
        estimates.append(found.kl)
        brackets.append(found.kl_interval)
    expectation = np.mean(estimates)
    covered = sum(bracket is not None and bracket.lower <= expectation <= bracket.upper for bracket in brackets)
    assert 178 <= covered <= 199


def test_an_interval_of_nothing_is_none() -> None:
    assert interval(math.inf, np.zeros(10), blocks=5) is None
    assert interval(0.0, np.full(10, math.nan), blocks=5) is None
    assert interval(0.0, np.zeros(10), blocks=1) is None


def test_free_energy_profile_and_its_error() -> None:
    reference, model = np.array([0.5, 0.25, 0.25, 0.0]), np.array([0.25, 0.5, 0.0, 0.25])
    assert mean_absolute_error(reference, model) == pytest.approx(math.log(2))
    assert free_energy(reference).tolist() == pytest.approx([-math.log(2), 0.0, 0.0, math.inf])
    generator = np.random.default_rng(7)
    histograms = []
    for centre in (0.0, 0.4):
        histogram = BlockedHistogram(torus_grid(), blocks=BLOCKS)
        angles = np.stack([generator.vonmises(centre, 1.0, 100_000), generator.vonmises(2.0, 5.0, 100_000)], axis=1)
        histogram.add(angles, sample_blocks(0, 100_000))
        histograms.append(first_axis(histogram))
    draws = Draws(draw_blocks(BLOCKS, generator), draw_blocks(BLOCKS, generator))
    found = profile_error(*histograms, draws)
    centres = histograms[0].grid.edges()[:-1] + math.pi / 100
    assert found.mae == pytest.approx(np.abs(np.cos(centres) - np.cos(centres - 0.4)).mean(), abs=0.01)
    assert found.unvisited == 0
    # A bin that holds less than half a sample by weight does not count as visited.
    clash = int(histograms[1].sums.sum(0).argmin())
    histograms[1].sums[:, clash] *= 1e-30
    without = profile_error(*histograms, draws)
    assert without.unvisited == 1
    assert without.mae == pytest.approx(found.mae, abs=0.02)
    counts = histograms[0].sums.sum(0)
    np.testing.assert_allclose(profile_deviation(histograms[0], draws.model), 1 / np.sqrt(counts), rtol=0.6)
