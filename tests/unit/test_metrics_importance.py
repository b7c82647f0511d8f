"""Importance weights of Gaussians, whose every figure is known."""

import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from boltzport.analysis.metrics import BLOCKS, bounds, clip_count, clip_largest, importance
from boltzport.analysis.metrics.importance import clamp_lowest, effective_sample_size, smooth
from boltzport.core.weights import reweighting

SHIFT = 0.8


def gaussian_log_weights(samples: int, generator: np.random.Generator) -> np.ndarray:
    """Weights of samples of N(0, 1) for 3 N(SHIFT, 1)."""
    return math.log(3.0) + SHIFT * generator.normal(size=samples) - SHIFT**2 / 2


def test_gaussians_have_the_metrics_of_the_formulas() -> None:
    found = importance(gaussian_log_weights(400_000, np.random.default_rng(0)), np.random.default_rng(1))
    assert found.log_z == pytest.approx(math.log(3.0), abs=4 * found.log_z_error)
    assert found.log_z_error == pytest.approx(math.sqrt(math.expm1(SHIFT**2) / 400_000), rel=0.02)
    assert found.log_z_smoothed == pytest.approx(found.log_z, abs=1e-3)
    assert found.ess_unclipped == pytest.approx(math.exp(-(SHIFT**2)), rel=0.01)
    assert found.ess_unclipped < found.ess < 1.01 * found.ess_unclipped
    assert found.elbo == pytest.approx(math.log(3.0) - SHIFT**2 / 2, abs=0.006)
    assert found.pareto_k is not None
    assert found.pareto_k < 0.5
    assert found.failed == 0


def test_ess_has_the_square_that_the_paper_lacks() -> None:
    log_weights = np.log([1.0, 1.0, 2.0, 6.0])
    assert effective_sample_size(log_weights) == pytest.approx(2.5**2 / 10.5)
    assert effective_sample_size(log_weights + 7.0) == pytest.approx(2.5**2 / 10.5)
    assert effective_sample_size(log_weights - 1e5) == pytest.approx(2.5**2 / 10.5)


def test_the_largest_and_lowest_hundredth_of_a_percent_are_clipped() -> None:
    values = np.random.default_rng(2).permutation(30_000).astype(np.float64)
    assert clip_count(30_000) == 3
    clipped, clamped = clip_largest(values), clamp_lowest(values)
    assert clipped.max() == 29_997.0
    assert (clipped == 29_997.0).sum() == 3
    assert clamped.min() == 2.0
    assert (clamped == 2.0).sum() == 3
    assert (clipped != values).sum() == (clamped != values).sum() == 2
    # One alone would be set to itself.
    assert clip_count(19_999) == 0


@pytest.mark.parametrize("shape", [0.3, 0.6, 0.9])
def test_pareto_k_is_the_shape_of_a_pareto_tail(shape: float) -> None:
    log_weights = -shape * np.log(np.random.default_rng(3).random(100_000))
    smoothed = smooth(log_weights)
    assert smoothed.pareto_k == pytest.approx(shape, abs=0.08)
    bulk = log_weights < np.quantile(log_weights, 0.98)
    np.testing.assert_allclose(smoothed.log_weights[bulk], log_weights[bulk], rtol=0, atol=1e-9)
    assert logsumexp(smoothed.log_weights) == pytest.approx(logsumexp(log_weights), abs=0.2)


def test_equal_weights_have_no_tail() -> None:
    found = importance(np.full(1000, -5.0), np.random.default_rng(0))
    assert (found.ess, found.log_z, found.log_z_error, found.pareto_k) == (1.0, -5.0, 0.0, None)


def test_failed_samples_have_no_weight_and_are_counted() -> None:
    log_weights = np.array([0.0, 0.0, -math.inf, -math.inf] * 100)
    found = importance(log_weights, np.random.default_rng(0))
    assert found.failed == 200
    assert found.log_z == pytest.approx(math.log(0.5))
    assert found.ess == pytest.approx(0.5)
    assert found.elbo == 0.0
    nothing = importance(np.full(10, -math.inf), np.random.default_rng(0))
    assert (nothing.ess, nothing.log_z, nothing.log_z_error) == (0.0, -math.inf, math.inf)


def test_intervals_cover() -> None:
    truth = {"log_z": math.log(3.0), "ess_unclipped": math.exp(-(SHIFT**2)), "elbo": math.log(3.0) - SHIFT**2 / 2}
    generator = np.random.default_rng(4)
    covered = dict.fromkeys(truth, 0)
    for _ in range(300):
        found = importance(gaussian_log_weights(4000, generator), generator)
        for name, value in truth.items():
            bracket = found.intervals[name]
            assert bracket is not None
            covered[name] += bracket.lower <= value <= bracket.upper
    # 95 % of 300 are 285 with a deviation of 4; the ESS is a ratio with a heavy tail and covers a little less.
    assert 270 <= covered["log_z"] <= 297
    assert 270 <= covered["elbo"] <= 297
    assert 255 <= covered["ess_unclipped"] <= 297


def test_nll_and_eubo_of_weighted_samples() -> None:
    # Samples of N(0, 2^2), weighted to N(0, 1); the model is N(0.5, 1.5^2), the target 5 N(0, 1).
    generator = np.random.default_rng(5)
    points = 2 * generator.normal(size=200_000)
    weights = 2 * np.exp(-0.5 * points**2 + points**2 / 8)
    log_q = -0.5 * ((points - 0.5) / 1.5) ** 2 - math.log(1.5 * math.sqrt(2 * math.pi))
    log_p = math.log(5.0) - 0.5 * points**2 - 0.5 * math.log(2 * math.pi)
    log_q[points > 3.0] = -math.inf
    block = np.arange(len(points)) % BLOCKS
    found = bounds(log_q, log_p, weights, block, generator)
    assert found.outside == pytest.approx(0.00135, abs=0.0002)
    nll = 0.5 * math.log(2 * math.pi * 1.5**2) + (1 + 0.25) / (2 * 1.5**2)
    kl = nll - 0.5 * math.log(2 * math.pi * math.e)
    assert found.nll == pytest.approx(nll, abs=0.01)
    assert found.eubo == pytest.approx(math.log(5.0) + kl, abs=0.01)
    bracket = found.intervals["nll"]
    assert bracket is not None
    assert bracket.lower < found.nll < bracket.upper < found.nll + 0.02


@pytest.mark.parametrize("count", [50, 20_000, 100_000])
def test_training_and_evaluation_have_one_elbo(count: int) -> None:
    """On weights of which a few are as low as in a clash: their mean is ten thousands of nats off."""
    generator = np.random.default_rng(3)
    log_weights = 0.1 * generator.normal(size=count)
    lowest = max(int(1e-4 * count) - 1, 0)
    log_weights[:lowest] = -1e8
    evaluated = importance(log_weights, generator).elbo
    trained = reweighting(torch.from_numpy(log_weights)).elbo
    assert trained == pytest.approx(evaluated, rel=1e-12)
    assert abs(evaluated) < 0.1
    if lowest:
        assert log_weights.mean() < -1000
