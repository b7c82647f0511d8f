"""Wasserstein distances and slow coordinates on cases with known answers."""

import math

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import boltzport.analysis.metrics.wasserstein
from boltzport.analysis.metrics import (
    Skipped,
    Tica,
    fit_tica,
    tica_grid,
    torsion_features,
    wasserstein_line,
    wasserstein_plane,
    wasserstein_torus,
    with_error,
)
from boltzport.core.errors import RunError


def test_gaussians_on_the_line() -> None:
    levels = (np.arange(20_000) + 0.5) / 20_000
    first, second = scipy.stats.norm.ppf(levels, 1.0, 2.0), scipy.stats.norm.ppf(levels[::2], 4.0, 0.5)
    generator = np.random.default_rng(0)
    found = wasserstein_line(generator.permutation(first), generator.permutation(second))
    assert found == pytest.approx(math.hypot(3.0, 1.5), rel=2e-3)


def test_weights_on_the_line() -> None:
    # A quarter stays, a quarter moves by 1 to 0, a half by 1 to 2.
    found = wasserstein_line(
        np.array([1.0, 0.0]),
        np.array([2.0, 0.0]),
        first_weights=np.array([3.0, 1.0]),
        second_weights=np.array([1.0, 1.0]),
    )
    assert found == pytest.approx(math.sqrt(0.75))


def test_torus_goes_the_shorter_way_round() -> None:
    generator = np.random.default_rng(1)
    angles = math.pi + 0.2 * generator.normal(size=(80, 2))
    wrapped = np.mod(angles + math.pi, 2 * math.pi) - math.pi
    moved = np.mod(angles + np.array([0.5, -0.2]) + math.pi, 2 * math.pi) - math.pi
    assert wasserstein_torus(wrapped, moved) == pytest.approx(math.hypot(0.5, 0.2), rel=1e-9)
    assert wasserstein_torus(wrapped, angles) == pytest.approx(0.0, abs=1e-6)


def test_torus_is_the_best_assignment() -> None:
    generator = np.random.default_rng(2)
    first, second = generator.uniform(-math.pi, math.pi, size=(2, 40, 4))
    gap = np.abs(first[:, None] - second[None])
    cost = (np.minimum(gap, 2 * math.pi - gap) ** 2).sum(-1)
    rows, columns = scipy.optimize.linear_sum_assignment(cost)
    assert wasserstein_torus(first, second) == pytest.approx(math.sqrt(cost[rows, columns].mean()))


def test_weighted_points_are_repeated_points() -> None:
    generator = np.random.default_rng(3)
    first, second = 0.3 * generator.normal(size=(2, 12, 2))
    repeats = generator.integers(1, 4, size=12)
    weighted = wasserstein_plane(first, second, first_weights=repeats.astype(np.float64))
    assert weighted == pytest.approx(wasserstein_plane(np.repeat(first, repeats, axis=0), second), rel=1e-6)
    # Far from the cut of the torus both distances are one.
    on_torus = wasserstein_torus(first, second, first_weights=repeats.astype(np.float64))
    assert weighted == pytest.approx(on_torus, rel=1e-6)


def test_transport_that_stops_early_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boltzport.analysis.metrics.wasserstein, "ITERATIONS", 1)
    points = np.random.default_rng(4).normal(size=(2, 50, 2))
    with pytest.raises(RunError, match="did not converge"):
        wasserstein_plane(*points)
    with pytest.raises(RunError, match="did not converge"):
        wasserstein_torus(*points)


def test_error_of_a_distance_is_its_scatter() -> None:
    generator = np.random.default_rng(5)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        return generator.normal(size=4000), generator.normal(1.0, 1.5, size=4000)

    found = [with_error(wasserstein_line, *draw()) for _ in range(40)]
    scatter = np.std([distance.value for distance in found])
    assert np.mean([distance.error for distance in found]) == pytest.approx(scatter, rel=0.4)


def autoregressive(chains: int, frames: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chains of three independent processes of known correlation, mixed; (chains, frames, 3), and the mixing."""
    generator = np.random.default_rng(seed)
    decay = np.array([0.97, 0.85, 0.3])
    state = generator.normal(size=(chains, 3))
    path = np.empty((chains, frames, 3))
    for frame in range(frames):
        state = decay * state + np.sqrt(1 - decay**2) * generator.normal(size=(chains, 3))
        path[:, frame] = state
    mixing = generator.normal(size=(3, 3))
    return path, path @ mixing


def test_tica_finds_the_slow_processes() -> None:
    path, mixed = autoregressive(16, 2000, seed=6)
    chain = np.repeat(np.arange(16), 2000)
    found = fit_tica(mixed.reshape(-1, 3), chain, np.ones(32_000), lags=(5,))
    assert isinstance(found, Tica)
    np.testing.assert_allclose(found.correlations, [0.97**5, 0.85**5], atol=0.03)
    projected = found.project(mixed.reshape(-1, 3))
    for component in range(2):
        correlation = np.corrcoef(projected[:, component], path.reshape(-1, 3)[:, component])[0, 1]
        assert abs(correlation) > 0.99
    grid = tica_grid(projected)
    assert (grid.cell(projected) >= 0).all()
    # Frames of all chains in turn are the same trajectories: pairs never straddle chains.
    turns = fit_tica(mixed.transpose(1, 0, 2).reshape(-1, 3), np.tile(np.arange(16), 2000), np.ones(32_000), lags=(5,))
    assert isinstance(turns, Tica)
    np.testing.assert_allclose(turns.matrix, found.matrix, rtol=1e-6)


def test_tica_is_left_out_where_there_is_no_time() -> None:
    _, mixed = autoregressive(4, 2000, seed=7)
    features, chain = mixed.reshape(-1, 3), np.repeat(np.arange(4), 2000)
    weighted = fit_tica(features, chain, np.linspace(0.5, 1.5, 8000))
    assert isinstance(weighted, Skipped)
    assert "weighted" in weighted.reason
    shuffled = fit_tica(features[np.random.default_rng(8).permutation(8000)], chain, np.ones(8000))
    assert isinstance(shuffled, Skipped)
    assert "not correlated" in shuffled.reason
    # What forgets within ten frames is taken at a shorter lag.
    thinned = fit_tica(mixed[:, ::20].reshape(-1, 3), np.repeat(np.arange(4), 100), np.ones(400))
    assert isinstance(thinned, Tica)
    assert thinned.lag < 10
    short = fit_tica(features[:6], np.arange(6), np.ones(6))
    assert isinstance(short, Skipped)


def test_features_are_periodic() -> None:
    torsions = np.array([[0.3, -2.0, 3.1]])
    np.testing.assert_allclose(torsion_features(torsions), torsion_features(torsions - 2 * math.pi), atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 15])
def test_few_samples_have_a_distance_and_no_error(count: int) -> None:
    """As many energies may be finite in a bad model: none at all has no distance, a few have one without an error."""
    first, second = np.arange(400.0), np.arange(float(count))
    found = with_error(wasserstein_line, first, second)
    if count:
        assert found.value == pytest.approx(wasserstein_line(first, second))
    assert math.isnan(found.value) == (count == 0)
    # Two subsets of two samples each are the fewest that scatter.
    assert math.isnan(found.error) == (count < 4)
