"""Constrained mass transport on flows: guards, reused buffers, checkpoints, and its theory on Gaussians."""

import copy
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.layout import Layout, interval
from boltzport.core.weights import effective_fraction, normalised
from boltzport.targets import CountedTarget, Density, Purpose, toy
from boltzport.training import Buffer, draw
from boltzport.training.methods import CMT, CMTConfig
from boltzport.training.methods.cmt.budget import entropy_bound, target_entropy
from boltzport.training.methods.cmt.dual import Bounds, solve
from boltzport.training.methods.cmt.path import Multipliers, PathPoint, log_weights
from boltzport.training.methods.cmt.reuse import Formers
from trainings import quiet, small_flow, trained

SMALL = CMTConfig(steps=3, gradient_steps=10, buffer_size=2000, batch_size=200, learning_rate=3e-3, warmup=0)


# The theory, on Gaussians: from N(0, 1.5^2) in two dimensions to N((2, -1), diag(0.5, 1.1)^2), the skewed toy.
VARIANCE = 1.5**2
TARGET_MEAN, TARGET_VARIANCE = torch.tensor([2.0, -1.0]), torch.tensor([0.5**2, 1.1**2])


def next_gaussian(mean: Tensor, variance: Tensor, multipliers: Multipliers) -> tuple[Tensor, Tensor]:
    """Product of powers of Gaussians."""
    lam, eta = multipliers
    precision = (lam / variance + 1 / TARGET_VARIANCE) / (1 + lam + eta)
    return (lam * mean / variance + TARGET_MEAN / TARGET_VARIANCE) / (1 + lam + eta) / precision, 1 / precision


def independent_path(bounds: Bounds, steps: int) -> list[PathPoint]:
    """alpha and beta from closed forms and the theorem's products, without a line of the package's solver."""
    mean, variance = torch.zeros(2), torch.full((2,), VARIANCE)
    lams, etas, points = [], [], []
    for _ in range(steps):

        def change(lam: float, eta: float) -> tuple[float, float]:
            new_mean, new_variance = next_gaussian(mean, variance, Multipliers(lam, eta))  # noqa: B023
            ratio = new_variance / variance  # noqa: B023
            shift = (new_mean - mean) ** 2 / variance  # noqa: B023
            return float(0.5 * (ratio + shift - 1 - ratio.log()).sum()), float(-0.5 * ratio.log().sum())

        def lam_of(eta: float) -> float:
            def excess(lam: float) -> float:
                return change(lam, eta)[0] - bounds.trust_region  # noqa: B023

            return 0.0 if excess(0.0) <= 0 else brentq(excess, 0.0, 1e12, xtol=1e-9)

        def entropy_excess(eta: float) -> float:
            return change(lam_of(eta), eta)[1] - bounds.entropy

        eta = 0.0 if math.isinf(bounds.entropy) or entropy_excess(0.0) <= 0 else brentq(entropy_excess, 0.0, 1e4)
        lams.append(lam_of(eta))
        etas.append(eta)
        mean, variance = next_gaussian(mean, variance, Multipliers(lams[-1], eta))
        shrink = [lam / (1 + lam + eta) for lam, eta in zip(lams, etas, strict=True)]
        beta = 1 - math.prod(shrink)
        lost = sum(
            eta / (1 + lam + eta) * math.prod(shrink[k + 1 :])
            for k, (lam, eta) in enumerate(zip(lams, etas, strict=True))
        )
        points.append(PathPoint(alpha=1 - lost / beta, beta=beta))
    return points


@pytest.mark.parametrize(
    "bounds", [Bounds(trust_region=0.2), Bounds(trust_region=0.2, entropy=0.05), Bounds(trust_region=1.0, entropy=0.2)]
)
def test_path_on_gaussians_is_the_theorems(bounds: Bounds) -> None:
    """Exact samples instead of a flow: the solver's multipliers lead along the path of the closed forms."""
    generator = torch.Generator().manual_seed(0)
    target, mean, variance = toy("gaussian-skewed"), torch.zeros(2), torch.full((2,), VARIANCE)
    point = PathPoint()
    for expected in independent_path(bounds, 4):
        x = mean + variance.sqrt() * torch.randn(100_000, 2, dtype=torch.float64, generator=generator)
        log_q = torch.distributions.Normal(mean.double(), variance.double().sqrt()).log_prob(x).sum(1)
        found = solve(log_q, target.log_density(x), bounds)
        point = point.after(found.multipliers)
        assert point.beta == pytest.approx(expected.beta, abs=0.02)
        assert point.alpha == pytest.approx(expected.alpha, abs=0.02)
        mean, variance = next_gaussian(mean, variance, found.multipliers)


@pytest.mark.slow
def test_a_trained_flow_follows_the_path() -> None:
    """The same with a flow in place of exact samples; the fits add their own error."""
    config = CMTConfig(
        trust_region=0.2, entropy=0.1, steps=3, gradient_steps=150, buffer_size=8000, batch_size=500, learning_rate=5e-3
    )
    rows, _, _ = trained(CMT(config), toy("gaussian-skewed"))
    for row, expected in zip(rows, independent_path(Bounds(trust_region=0.2, entropy=0.1), 3), strict=True):
        assert row.beta == pytest.approx(expected.beta, abs=0.05)
        assert row.alpha == pytest.approx(expected.alpha, abs=0.05)
    # Entropy falls by the bound, from row to row, up to the error of the fits.
    entropies = [row.entropy for row in rows]
    assert all(row.entropy_multiplier > 0 for row in rows)
    for former, later in pairwise(entropies):
        assert former - later == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize("trust_region", [0.003, 0.01, 0.03])
def test_step_ess_sits_at_its_bound(trust_region: float) -> None:
    """1 / (1 + 2 eps), up to the next order of the expansion, which is eps^(3/2)."""
    generator = torch.Generator().manual_seed(0)
    x = math.sqrt(VARIANCE) * torch.randn(200_000, 2, dtype=torch.float64, generator=generator)
    log_q = torch.distributions.Normal(0.0, math.sqrt(VARIANCE)).log_prob(x).sum(1)
    log_p = toy("gaussian-skewed").log_density(x)
    found = solve(log_q, log_p, Bounds(trust_region=trust_region))
    assert found.multipliers.trust_region > 0
    ess = effective_fraction(log_weights(log_q, log_p, found.multipliers))
    assert ess == pytest.approx(1 / (1 + 2 * trust_region), abs=2 * trust_region**1.5)


def test_entropy_of_a_gaussian_target_is_foreseen() -> None:
    generator = torch.Generator().manual_seed(0)
    x = math.sqrt(VARIANCE) * torch.randn(100_000, 2, dtype=torch.float64, generator=generator)
    log_q = torch.distributions.Normal(0.0, math.sqrt(VARIANCE)).log_prob(x).sum(1)
    scale = 0.02
    # Too narrow to reweight to: it takes the extrapolation in temperature.
    log_p = -0.5 * ((x - 0.3) ** 2).sum(1) / scale**2 + 5.0
    expected = 2 * (0.5 * math.log(2 * math.pi * math.e) + math.log(scale))
    assert effective_fraction(log_p - log_q) < 0.01
    assert target_entropy(log_q, log_p) == pytest.approx(expected, abs=0.3)
    now = 2 * (0.5 * math.log(2 * math.pi * math.e) + 0.5 * math.log(VARIANCE))
    assert entropy_bound(log_q, log_p, steps_left=10) == pytest.approx((now - expected) / 10, abs=0.05)


def test_points_that_fail_are_left_out_and_counted() -> None:
    layout = Layout([interval(-4.0, 4.0, width=1.0), interval(-4.0, 4.0, width=1.0)])

    def log_density(x: Tensor) -> Tensor:
        value = -0.5 * (x**2).sum(1)
        return torch.where(x[:, 0] > 1.0, math.nan, torch.where(x[:, 1] > 1.5, -math.inf, value))

    rows, counted, flow = trained(CMT(SMALL), Density(log_density, layout))
    assert 0.1 * 2000 < rows[0].failed < 0.4 * 2000
    assert counted.ledger["failed"] == sum(row.failed for row in rows)
    assert counted.ledger["training"] == 6000
    assert all(parameter.isfinite().all() for parameter in flow.parameters())
    # Weight zero for the points that failed: Z is the integral over the rest.
    expected = 2 * math.pi * 0.8413 * 0.9332
    assert math.exp(rows[0].log_z) == pytest.approx(expected, rel=0.1)


def test_a_target_that_fails_everywhere_is_named() -> None:
    target = Density(lambda x: x[:, 0] * math.nan, Layout([interval(0.0, 1.0)] * 2))
    with pytest.raises(RunError, match="2000 of 2000 samples of the flow have no finite density"):
        trained(CMT(SMALL), target)


def test_a_fit_that_fails_is_rolled_back_and_retried_with_half_the_trust_region() -> None:
    target = CountedTarget(toy("gmm-2d"))
    flow, method = small_flow(target.target), CMT(replace(SMALL, learning_rate=1e4, max_gradient_norm=1e9))
    state = method.init(flow, target)
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    with pytest.raises(RunError, match=r"step 1 failed 4 times, the last time with a trust region of 0.0375") as caught:
        method.step(state, generator=torch.Generator().manual_seed(0), progress=quiet)
    assert "learning_rate" in str(caught.value)
    for name, value in state.flow.state_dict().items():
        torch.testing.assert_close(value, before[name], atol=0, rtol=0)
    assert state.step == 0


def test_uneven_weights_are_not_learned_from() -> None:
    """Few points far away hold all weight: the step is retried with less of a trust region until they do not."""
    layout = Layout([interval(-6.0, 6.0, width=1.0)] * 2)

    def log_density(x: Tensor) -> Tensor:
        return 60.0 * (x[:, 0] > 2.8).double()

    rows, _, _ = trained(CMT(replace(SMALL, steps=1, entropy=math.inf, trust_region=6.0)), Density(log_density, layout))
    assert rows[0].retries > 0


def test_constant_multiplier_and_no_constraint() -> None:
    rows, _, _ = trained(CMT(replace(SMALL, multiplier=3.0)), toy("gmm-2d"))
    assert [row.trust_region_multiplier for row in rows] == [3.0] * 3
    assert [row.beta for row in rows] == pytest.approx([0.25, 0.4375, 0.578125])
    free = replace(SMALL, trust_region=math.inf, entropy=math.inf)
    rows, _, _ = trained(CMT(free), toy("gmm-2d"))
    assert [(row.trust_region_multiplier, row.entropy_multiplier, row.beta) for row in rows] == [(0.0, 0.0, 1.0)] * 3


def test_a_fit_stops_when_learned() -> None:
    slow = replace(SMALL, gradient_steps=400, learned=0.5, hold_out=0.2, entropy=math.inf)
    rows, _, _ = trained(CMT(slow), toy("gaussian-skewed"))
    assert rows[0].gradient_steps < 400
    assert rows[0].divergence <= 0.5 * 0.3


def test_training_ends_when_it_has_converged() -> None:
    layout = Layout([interval(-6.0, 6.0, width=1.0)] * 2)
    at_home = Density(lambda x: -0.5 * (x**2).sum(1), layout)
    rows, _, _ = trained(CMT(replace(SMALL, steps=50, patience=4, learning_rate=1e-5)), at_home)
    assert len(rows) == 5


def test_weights_for_several_proposals_are_exact() -> None:
    """Against the textbook balance heuristic, on three flows with random weights."""
    target = CountedTarget(toy("gmm-2d"))
    generator, flows = torch.Generator().manual_seed(0), []
    for seed in range(3):
        flow = small_flow(target.target, seed=0)
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
        flows.append(flow)
    formers, buffers, joined = Formers(2), [], None
    for flow, n in zip(flows, (300, 500, 400), strict=True):
        fresh = draw(flow, target, n, generator=generator, progress=quiet, purpose=Purpose.TRAINING).buffer
        buffers.append(fresh)
        joined = formers.join(flow, fresh)
    assert isinstance(joined, Buffer)
    assert joined.size == 1200
    with torch.no_grad():
        log_q = torch.stack([flow.log_prob(joined.coordinates).double() for flow in flows], 1)
    mixture = torch.logsumexp(log_q + torch.log(torch.tensor([300.0, 500.0, 400.0]).double() / 1200), 1)
    torch.testing.assert_close(joined.log_base, log_q[:, 2] - mixture, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(joined.log_q, log_q[:, 2], atol=1e-4, rtol=1e-4)
    # As a sample of the last flow they give its entropy.
    expected = -float(buffers[2].log_q.mean())
    assert float(-(normalised(joined.log_base) * joined.log_q).sum()) == pytest.approx(expected, abs=0.15)
    # The next one forgets the first.
    again = formers.join(flows[0], buffers[0])
    assert again.size == 500 + 400 + 300


@pytest.mark.parametrize("reuse", [0, 2])
def test_a_restored_state_goes_on_bit_for_bit(reuse: int) -> None:
    config = replace(SMALL, steps=4, reuse=reuse, average=0.9, weight_decay=1e-3)
    method, target = CMT(config), CountedTarget(toy("gmm-2d"))
    state, generator = method.init(small_flow(target.target), target), torch.Generator().manual_seed(5)
    method.step(state, generator=generator, progress=quiet)
    method.step(state, generator=generator, progress=quiet)
    saved, random_state = copy.deepcopy(state.save()), generator.get_state()
    other = method.init(small_flow(target.target, seed=9), target)
    other.restore(saved)
    other_generator = torch.Generator()
    other_generator.set_state(random_state)
    first = method.step(state, generator=generator, progress=quiet)
    second = method.step(other, generator=other_generator, progress=quiet)
    assert first == second
    for left, right in zip(state.result().parameters(), other.result().parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("anchors", [0, 500])
def test_refining_by_path_gradients_gets_better_and_resumes_bit_for_bit(anchors: int) -> None:
    config = replace(SMALL, steps=2, gradient_steps=60, refine=3, refine_rate=3e-3, refine_batch=200, average=0.9)
    config = replace(config, anchors=anchors, anchor_batch=100)
    method, target = CMT(config), CountedTarget(toy("gaussian-skewed"))
    state, generator = method.init(small_flow(target.target), target), torch.Generator().manual_seed(5)
    rows = [method.step(state, generator=generator, progress=quiet) for _ in range(3)]
    saved, random_state = copy.deepcopy(state.save()), generator.get_state()
    rows += [method.step(state, generator=generator, progress=quiet) for _ in range(2)]
    assert method.finished(state)
    assert rows[-1].ess > rows[1].ess
    assert target.ledger["training_gradients"] == 3 * 60 * 200
    other, other_generator = method.init(small_flow(target.target, seed=9), target), torch.Generator()
    other.restore(saved)
    other_generator.set_state(random_state)
    assert [method.step(other, generator=other_generator, progress=quiet) for _ in range(2)] == rows[3:]


def test_a_refining_step_that_ruins_the_flow_is_rolled_back() -> None:
    config = replace(SMALL, steps=4, gradient_steps=40, refine=1, refine_rate=0.3)
    rows, _, _ = trained(CMT(config), toy("gaussian-skewed"))
    assert rows[-1].retries > 0
