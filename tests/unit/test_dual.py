"""The dual, by its optimality conditions and against closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.training.methods.cmt.dual import Bounds, Status, solve
from boltzport.training.methods.cmt.path import Multipliers, PathPoint, log_weights

BOUNDS = {
    "none": Bounds(),
    "trust-region": Bounds(trust_region=0.3),
    "entropy": Bounds(entropy=0.4),
    "both": Bounds(trust_region=0.3, entropy=0.15),
    "both, tight": Bounds(trust_region=0.01, entropy=0.003),
    "both, wide": Bounds(trust_region=2.0, entropy=0.7),
}


def random_buffer(seed: int, *, n: int = 500, spread: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    """Densities with a skewed ratio, and uneven base weights."""
    generator = torch.Generator().manual_seed(seed)
    first, second, third = torch.randn(3, n, dtype=torch.float64, generator=generator)
    log_q = -0.5 * first**2 - 0.3 * second.abs()
    return log_q, log_q + spread * (0.5 * second - second**2 + 0.4 * first), 0.7 * third


def textbook(log_q: Tensor, log_p: Tensor, base: Tensor, multipliers: Multipliers) -> tuple[float, float]:
    """Divergence and loss of entropy of the next density, written from the definitions."""
    lam, eta = multipliers
    total = 1 + lam + eta
    q, b = log_q.numpy(), np.exp(base.numpy())
    b = b / b.sum()
    # The unnormalised density of the proposition, divided by q_i, at points of q_i.
    density = np.exp(lam / total * q + log_p.numpy() / total - 1.0 / total * log_p.numpy().max())
    ratio = density / np.exp(q)
    ratio = ratio / (b * ratio).sum()
    log_ratio = np.log(np.maximum(ratio, 1e-300))
    divergence = (b * ratio * log_ratio).sum()
    entropy_now, entropy_next = -(b * q).sum(), -(b * ratio * (q + log_ratio)).sum()
    return float(divergence), float(entropy_now - entropy_next)


@pytest.mark.parametrize("name", BOUNDS)
@given(seed=st.integers(0, 10_000), spread=st.sampled_from([0.1, 1.0, 5.0, 40.0]))
def test_optimality_conditions(name: str, seed: int, spread: float) -> None:
    bounds = BOUNDS[name]
    log_q, log_p, base = random_buffer(seed, spread=spread)
    found = solve(log_q, log_p, bounds, log_base=base)
    divergence, loss = textbook(log_q, log_p, base, found.multipliers)
    lam, eta = found.multipliers
    assert lam >= 0.0
    assert eta >= 0.0
    assert divergence <= bounds.trust_region * (1 + 1e-5)
    assert loss <= bounds.entropy + 1e-5
    if lam > 0.0:
        assert divergence == pytest.approx(bounds.trust_region, rel=1e-5)
    if eta > 0.0:
        assert loss == pytest.approx(bounds.entropy, abs=1e-5)
    assert found.change.divergence == pytest.approx(divergence, abs=1e-8)
    assert found.change.entropy_loss == pytest.approx(loss, abs=1e-8)
    assert found.status is (Status.INACTIVE if (lam, eta) == (0.0, 0.0) else Status.SOLVED)


@pytest.mark.parametrize("name", ["trust-region", "entropy", "both", "both, wide"])
def test_against_another_optimiser(name: str) -> None:
    """The maximum of the dual as the paper's appendix derives it, by a method that knows no derivative."""
    bounds = BOUNDS[name]
    log_q, log_p, _ = random_buffer(3)

    def minus_dual(logs: np.ndarray) -> float:
        lam = 0.0 if math.isinf(bounds.trust_region) else math.exp(logs[0])
        eta = 0.0 if math.isinf(bounds.entropy) else math.exp(logs[1])
        ratio = (log_p - (1 + eta) * log_q) / (1 + lam + eta)
        log_z = float(torch.logsumexp(ratio, 0)) - math.log(len(ratio))
        dual = -(1 + lam + eta) * log_z
        dual -= lam * bounds.trust_region if lam else 0.0
        dual += eta * (-float(log_q.mean()) - bounds.entropy) if eta else 0.0
        return -dual

    best = minimize(minus_dual, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    found = solve(log_q, log_p, bounds).multipliers
    if not math.isinf(bounds.trust_region):
        assert found.trust_region == pytest.approx(math.exp(best.x[0]), rel=1e-4, abs=1e-6)
    if not math.isinf(bounds.entropy):
        assert found.entropy == pytest.approx(math.exp(best.x[1]), rel=1e-4, abs=1e-6)


def gaussian_change(
    variance: float, mean: float, target_variance: float, multipliers: Multipliers
) -> tuple[float, float]:
    """Divergence and loss of entropy in closed form: q_i = N(0, variance), p = N(mean, target_variance)."""
    lam, eta = multipliers
    total = 1 + lam + eta
    precision = (lam / variance + 1 / target_variance) / total
    centre = mean / target_variance / total / precision
    next_variance = 1 / precision
    divergence = 0.5 * (next_variance / variance + centre**2 / variance - 1 + math.log(variance / next_variance))
    return divergence, 0.5 * math.log(variance / next_variance)


@pytest.mark.parametrize("name", ["trust-region", "entropy", "both"])
@pytest.mark.parametrize(("mean", "target_variance"), [(1.5, 0.2), (-2.5, 0.05), (0.0, 0.01)])
def test_gaussians_in_closed_form(name: str, mean: float, target_variance: float) -> None:
    variance, bounds = 1.7, BOUNDS[name]
    # Quantiles instead of random points: the sums are integrals.
    uniform = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    x = math.sqrt(variance) * torch.special.ndtri(uniform)
    log_q = -0.5 * x**2 / variance - 0.5 * math.log(2 * math.pi * variance)
    found = solve(log_q, -0.5 * (x - mean) ** 2 / target_variance, bounds)
    divergence, loss = gaussian_change(variance, mean, target_variance, found.multipliers)
    if found.multipliers.trust_region > 0:
        assert divergence == pytest.approx(bounds.trust_region, rel=2e-3)
    if found.multipliers.entropy > 0:
        assert loss == pytest.approx(bounds.entropy, rel=2e-3)
    assert found.multipliers != (0.0, 0.0)


def test_clashes_of_the_first_step() -> None:
    """Log-weights that span 1e8, as a new molecule has them."""
    generator = torch.Generator().manual_seed(0)
    log_q = torch.randn(20_000, dtype=torch.float64, generator=generator)
    log_p = -(torch.rand(20_000, dtype=torch.float64, generator=generator) ** 8) * 1e8
    found = solve(log_q, log_p, BOUNDS["both"])
    assert found.multipliers.trust_region > 1e5
    assert found.change.divergence == pytest.approx(0.3, rel=1e-6)
    assert found.change.entropy_loss == pytest.approx(0.15, rel=1e-6)


def test_multipliers_vanish_at_the_end() -> None:
    log_q, _, _ = random_buffer(1)
    assert solve(log_q, log_q + 3.0, BOUNDS["both"]).multipliers == (0.0, 0.0)
    # A target of more entropy than the flow: only the trust region can act.
    assert solve(log_q, 0.2 * log_q, BOUNDS["both"]).multipliers.entropy == 0.0


def test_bounds_and_buffers_are_checked() -> None:
    with pytest.raises(InputError, match="expected bounds above 0"):
        Bounds(trust_region=0.0)
    with pytest.raises(RunError, match="finite"):
        solve(torch.zeros(3), torch.tensor([0.0, -math.inf, 0.0]), Bounds())


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 50.0)), min_size=1, max_size=6))
def test_path_follows_the_theorem(sequence: list[tuple[float, float]]) -> None:
    """alpha and beta as the theorem's sums and products have them."""
    point = PathPoint()
    for pair in sequence:
        point = point.after(Multipliers(*pair))
    shrink = [lam / (1 + lam + eta) for lam, eta in sequence]
    beta = 1 - math.prod(shrink)
    lost = sum(eta / (1 + lam + eta) * math.prod(shrink[k + 1 :]) for k, (lam, eta) in enumerate(sequence))
    assert point.beta == pytest.approx(beta, abs=1e-12)
    assert point.alpha == pytest.approx(1 - lost / beta, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 50.0)), min_size=1, max_size=6))
def test_weights_compose_to_the_path(sequence: list[tuple[float, float]]) -> None:
    """Applying the weights step by step gives q_0^(1 - beta) p^(alpha beta), on a skewed example."""
    log_q0, log_p, _ = random_buffer(5, n=50)
    log_q, point = log_q0, PathPoint()
    for pair in sequence:
        log_q = log_q + log_weights(log_q, log_p, Multipliers(*pair))
        point = point.after(Multipliers(*pair))
    expected = (1 - point.beta) * log_q0 + point.power * log_p
    torch.testing.assert_close(log_q - log_q[0], expected - expected[0], atol=1e-8, rtol=1e-8)
