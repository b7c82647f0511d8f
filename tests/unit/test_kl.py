"""Forward and reverse KL: their gradients, what they leave out, and what they reach on Gaussians."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.layout import Layout, circle, interval
from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget, Density, Evaluated, Target, toy
from boltzport.training import StepInfo, WeightedPoints
from boltzport.training.methods import ForwardKL, ForwardKLConfig, ReverseKL, ReverseKLConfig, forward_kl, reverse_kl
from boltzport.training.path_gradient import lower_energies, path_loss
from boltzport.training.reverse import reverse_loss

LAYOUT = Layout([interval(-4.0, 4.0, centre=0.5, width=1.2), interval(-5.0, 5.0, centre=0.0, width=1.0), circle()])
SKEWED = toy("gaussian-skewed")
ENTROPY = 2 * 0.5 * math.log(2 * math.pi * math.e) + math.log(0.5) + math.log(1.1)
"""Of the skewed Gaussian."""


class Curved(Target):
    """A skewed Gaussian times a tilt of the circle, with respect to a measure of its own."""

    name = "curved"
    layout = LAYOUT

    def evaluate(self, coordinates: Tensor) -> Evaluated:
        x = coordinates.double()
        log_p = (
            -0.5 * ((x[:, 0] - 0.8) / 0.9) ** 2 - 0.5 * (x[:, 1] - 0.3 * x[:, 0]) ** 2 + 0.6 * torch.cos(x[:, 2] - 1)
        )
        return Evaluated(log_p, 0.4 * x[:, 0] + 0.2 * torch.sin(x[:, 2]))


def random_flow(seed: int, layout: Layout = LAYOUT) -> Flow:
    flow = CouplingFlow(
        layout, CouplingConfig(pairs=2, hidden=(8,)), generator=torch.Generator().manual_seed(0), compiled=False
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.12 * torch.randn(parameter.shape, generator=generator))
    return flow.double()


def trained(method: Any, target: Target, *, flow: Flow | None = None) -> tuple[list[StepInfo], CountedTarget, Flow]:
    config, generator = CouplingConfig(pairs=1, hidden=(16,)), torch.Generator().manual_seed(0)
    if flow is None:
        flow = CouplingFlow(target.layout, config, generator=generator, compiled=False)
    counted = CountedTarget(target)
    state, rows = method.init(flow, counted), []
    while not method.finished(state):
        rows.append(method.step(state, generator=generator, progress=lambda *_: None))
    return rows, counted, state.result()


@pytest.mark.parametrize("leave_out", [0, 30])
def test_gradient_of_reverse_kl_is_that_of_its_value(leave_out: int) -> None:
    """Against finite differences on the same base points, along a random direction of all weights."""
    flow, target = random_flow(1), CountedTarget(Curved())
    parameters = list(flow.parameters())
    direction = [torch.randn(p.shape, generator=torch.Generator().manual_seed(7), dtype=p.dtype) for p in parameters]

    def loss() -> Tensor:
        return reverse_loss(flow, target, 200, generator=torch.Generator().manual_seed(3), leave_out=leave_out).loss

    def moved(length: float) -> float:
        with torch.no_grad():
            for parameter, step in zip(parameters, direction, strict=True):
                parameter.add_(length * step)
        value = float(loss().detach())
        with torch.no_grad():
            for parameter, step in zip(parameters, direction, strict=True):
                parameter.sub_(length * step)
        return value

    gradients = torch.autograd.grad(loss(), parameters)
    slope = sum(float((gradient * step).sum()) for gradient, step in zip(gradients, direction, strict=True))
    assert slope == pytest.approx((moved(1e-5) - moved(-1e-5)) / 2e-5, rel=1e-5)
    assert abs(slope) > 0.01
    assert target.ledger["training_gradients"] == target.ledger["training"] == 600


def test_value_of_reverse_kl_is_the_divergence_of_gaussians() -> None:
    flow = CouplingFlow(
        SKEWED.layout, CouplingConfig(pairs=1, hidden=(8,)), generator=torch.Generator(), compiled=False
    )
    found = reverse_loss(flow, CountedTarget(SKEWED), 40_000, generator=torch.Generator().manual_seed(0))
    ratio = torch.tensor([1.5 / 0.5, 1.5 / 1.1]) ** 2
    shift = torch.tensor([2.0 / 0.5, 1.0 / 1.1]) ** 2
    expected = float(0.5 * (ratio + shift - 1 - ratio.log()).sum())
    assert float(found.loss.detach()) == pytest.approx(expected, rel=0.02)
    assert float((found.log_p - found.log_q).mean()) == pytest.approx(-float(found.loss.detach()), rel=1e-6)


def test_the_highest_energies_are_left_out() -> None:
    flow, target = random_flow(2), Curved()
    found = reverse_loss(flow, CountedTarget(target), 100, generator=torch.Generator().manual_seed(3), leave_out=15)
    with torch.no_grad():
        x, log_q = flow.sample_and_log_prob(100, generator=torch.Generator().manual_seed(3))
        log_p, log_volume = target.evaluate(x)
    # By energy, -log p, and not by log-weight: the two orders differ.
    lowest = sorted(range(100), key=lambda i: -float(log_p[i]))[:85]
    expected = float((log_q - log_p - log_volume)[lowest].mean())
    assert float(found.loss.detach()) == pytest.approx(expected, rel=1e-9)
    by_weight = (log_q - log_p - log_volume).sort().values[:85].mean()
    assert abs(float(by_weight) - expected) > 1e-3
    # Figures are of all points all the same.
    torch.testing.assert_close((found.log_p - found.log_q), log_p + log_volume - log_q)


@pytest.mark.parametrize("path_gradient", [False, True])
def test_a_training_leaves_them_out(path_gradient: bool) -> None:
    """The first gradient of a training is that of the loss with so many points left out, and not of all of them."""

    def norm(leave_out: int) -> float:
        flow, target, generator = random_flow(2), CountedTarget(Curved()), torch.Generator().manual_seed(0)
        if path_gradient:
            loss = path_loss(flow, target, 200, forward=0.0, generator=generator, leave_out=leave_out).loss
        else:
            loss = reverse_loss(flow, target, 200, generator=generator, leave_out=leave_out).loss
        gradients = torch.autograd.grad(loss, list(flow.parameters()))
        return float(torch.cat([gradient.flatten() for gradient in gradients]).norm())

    config = ReverseKLConfig(steps=1, gradient_steps=1, batch_size=200, remove_highest=150, path_gradient=path_gradient)
    (row,), _, _ = trained(ReverseKL(config), Curved(), flow=random_flow(2))
    assert row.gradient_norm == pytest.approx(norm(150), rel=1e-9)
    assert row.gradient_norm != pytest.approx(norm(0), rel=1e-3)


def test_points_that_fail_are_among_the_highest_energies() -> None:
    log_p = torch.tensor([-3.0, torch.nan, 5.0, -torch.inf, -4.0])
    assert lower_energies(log_p, leave_out=0).tolist() == [True] * 5
    assert lower_energies(log_p, leave_out=2).tolist() == [True, False, True, False, True]
    assert lower_energies(log_p, leave_out=3).tolist() == [True, False, True, False, False]


@pytest.mark.parametrize("path_gradient", [False, True])
def test_points_without_a_density_or_a_gradient_move_nothing_and_are_counted(path_gradient: bool) -> None:
    def log_density(x: Tensor) -> Tensor:
        rough = torch.where(x[:, 0] > 1.5, torch.nan, -0.5 * (x**2).sum(1))
        # Beyond 1 the root is of zero: its value is finite and its slope is not.
        return rough + torch.sqrt((x[:, 1] < 1.0) * (1.0 - x[:, 1]))

    layout = Layout([interval(-4.0, 4.0, width=1.0)] * 2)
    config = ReverseKLConfig(steps=2, gradient_steps=5, batch_size=200, path_gradient=path_gradient)
    rows, counted, flow = trained(ReverseKL(config), Density(log_density, layout))
    assert all(parameter.isfinite().all() for parameter in flow.parameters())
    assert all(0 < row.failed < 1000 for row in rows)
    # Path gradients take the value of a point that has no slope; the plain loss does without it.
    unusable = sum(row.failed for row in rows) - counted.ledger["failed"]
    assert unusable == 0 if path_gradient else unusable > 50
    assert all(row.gradient_norm is not None and math.isfinite(row.gradient_norm) for row in rows)
    assert counted.ledger["training"] == 2000


def test_a_target_that_fails_everywhere_is_said_and_the_flow_is_kept() -> None:
    target = Density(lambda x: x[:, 0] * math.nan, Layout([interval(0.0, 1.0)] * 2))
    method = ReverseKL(ReverseKLConfig(steps=2, gradient_steps=3, batch_size=50))
    flow = CouplingFlow(
        target.layout, CouplingConfig(pairs=1, hidden=(8,)), generator=torch.Generator(), compiled=False
    )
    state, before = method.init(flow, CountedTarget(target)), [value.clone() for value in flow.parameters()]
    with pytest.raises(RunError, match="150 of 150 points have no finite density"):
        method.step(state, generator=torch.Generator().manual_seed(0), progress=lambda *_: None)
    assert state.step == 0
    assert all(torch.equal(left, right) for left, right in zip(before, flow.parameters(), strict=True))


def test_a_target_without_a_gradient_is_refused() -> None:
    target = Density(lambda x: -(x.detach() ** 2).sum(1), Layout([interval(-2.0, 2.0)] * 2))
    with pytest.raises(InputError, match="need a target with a gradient"):
        trained(ReverseKL(ReverseKLConfig(steps=1)), target)


def test_path_gradients_are_zero_at_the_optimum_and_plain_ones_are_not() -> None:
    frozen = random_flow(2)
    config = ReverseKLConfig(steps=1, gradient_steps=1, batch_size=300, remove_highest=20)
    norms = {}
    for path_gradient in (False, True):
        method = ReverseKL(replace(config, path_gradient=path_gradient))
        rows, _, _ = trained(method, Density(frozen.log_prob, LAYOUT), flow=random_flow(2))
        norms[path_gradient] = rows[0].gradient_norm
        assert rows[0].ess == pytest.approx(1.0, abs=1e-6)
    assert norms[True] < 1e-9
    assert norms[False] > 0.1


@pytest.mark.parametrize("path_gradient", [False, True])
def test_reverse_kl_reaches_a_gaussian(path_gradient: bool) -> None:
    config = ReverseKLConfig(
        steps=3, gradient_steps=50, batch_size=200, learning_rate=3e-2, warmup=10, path_gradient=path_gradient
    )
    rows, counted, flow = trained(ReverseKL(config), SKEWED)
    assert rows[-1].elbo == pytest.approx(0.0, abs=0.05)
    assert rows[-1].ess > 0.9
    assert counted.ledger["training_gradients"] == counted.ledger.total == 3 * 50 * 200
    with torch.no_grad():
        mean = flow.sample(20_000, generator=torch.Generator().manual_seed(1)).mean(0)
    assert mean.tolist() == pytest.approx([2.0, -1.0], abs=0.08)


FORWARD = ForwardKLConfig(steps=3, gradient_steps=50, batch_size=250, learning_rate=3e-2, warmup=10, hold_out=0.2)


def test_forward_kl_reaches_the_entropy() -> None:
    points = SKEWED.sample(20_000, generator=torch.Generator().manual_seed(2)).float()
    rows, counted, _ = trained(ForwardKL(FORWARD, WeightedPoints(points, torch.zeros(20_000))), SKEWED)
    # The cross-entropy on points left out: the entropy, the divergence, and the noise of 4000 points.
    assert rows[-1].test_loss == pytest.approx(ENTROPY, abs=0.04)
    assert rows[-1].loss == pytest.approx(ENTROPY, abs=0.04)
    assert rows[0].test_loss > rows[-1].test_loss
    assert rows[-1].entropy == pytest.approx(ENTROPY, abs=0.08)
    assert rows[-1].ess > 0.95
    assert rows[-1].log_z == pytest.approx(0.0, abs=0.02)
    # The target is asked for the looks at the flow and for nothing else.
    assert counted.ledger["monitoring"] == counted.ledger.total == 3 * 2000
    assert counted.ledger["evaluation_gradients"] == 0


def test_forward_kl_respects_weights() -> None:
    """Points of a wide density, weighted as a sample of the target, beside points that do not count."""
    generator = torch.Generator().manual_seed(3)
    wide = torch.tensor([1.0, 0.0]) + 1.8 * torch.randn(30_000, 2, dtype=torch.float64, generator=generator)
    log_proposal = torch.distributions.Normal(torch.tensor([1.0, 0.0]).double(), 1.8).log_prob(wide).sum(1)
    log_weights = SKEWED.log_density(wide) - log_proposal
    points = torch.cat([wide, torch.full((10_000, 2), -6.0, dtype=torch.float64)])
    log_weights = torch.cat([log_weights, torch.full((10_000,), -torch.inf, dtype=torch.float64)])
    order = torch.randperm(40_000, generator=generator)
    samples = WeightedPoints(points[order].float(), log_weights[order])
    rows, _, flow = trained(ForwardKL(FORWARD, samples), SKEWED)
    assert rows[-1].ess > 0.9
    assert rows[-1].test_loss == pytest.approx(ENTROPY, abs=0.08)
    with torch.no_grad():
        drawn = flow.sample(20_000, generator=torch.Generator().manual_seed(1))
    assert drawn.mean(0).tolist() == pytest.approx([2.0, -1.0], abs=0.1)
    assert drawn.std(0).tolist() == pytest.approx([0.5, 1.1], rel=0.1)


def test_a_training_that_overfits_shows_in_the_test_loss() -> None:
    points = SKEWED.sample(40, generator=torch.Generator().manual_seed(2)).float()
    config = replace(FORWARD, hold_out=0.5, batch_size=20, monitor=0)
    rows, counted, _ = trained(ForwardKL(config, WeightedPoints(points, torch.zeros(40))), SKEWED)
    assert rows[-1].test_loss > rows[-1].loss + 0.5
    assert rows[-1].ess is None
    assert counted.ledger.total == 0


def test_a_step_of_forward_kl_that_fails_is_undone() -> None:
    points = SKEWED.sample(100, generator=torch.Generator().manual_seed(2)).float()
    points[50] = math.nan
    method = ForwardKL(replace(FORWARD, hold_out=0.0), WeightedPoints(points, torch.zeros(100)))
    flow = CouplingFlow(
        SKEWED.layout, CouplingConfig(pairs=1, hidden=(8,)), generator=torch.Generator(), compiled=False
    )
    state, before = method.init(flow, CountedTarget(SKEWED)), [value.clone() for value in flow.parameters()]
    with pytest.raises(RunError, match="step 1: the gradient is not finite"):
        method.step(state, generator=torch.Generator().manual_seed(0), progress=lambda *_: None)
    assert all(torch.equal(left, right) for left, right in zip(before, flow.parameters(), strict=True))


def test_a_look_that_sees_nothing_does_not_end_a_training() -> None:
    """The target fails everywhere: the samples are learned all the same, and the rows say how many points failed."""
    points = SKEWED.sample(500, generator=torch.Generator().manual_seed(2)).float()
    target = Density(lambda x: x[:, 0] * math.nan, SKEWED.layout)
    rows, _, _ = trained(ForwardKL(FORWARD, WeightedPoints(points, torch.zeros(500))), target)
    assert [(row.step, row.failed, row.ess) for row in rows] == [(1, 2000, None), (2, 2000, None), (3, 2000, None)]
    assert rows[-1].loss < rows[0].loss


@pytest.mark.parametrize("budget", [1000.0, 54_321.0, 1e6, 1e9])
def test_a_budget_of_reverse_kl_is_kept_and_used(budget: float) -> None:
    config = ReverseKLConfig(steps=50, gradient_steps=100, batch_size=1000, warmup=100)
    found = reverse_kl.within_budget(config, budget)
    evaluations = found.steps * found.gradient_steps * found.batch_size
    assert budget - found.steps * found.batch_size < evaluations <= budget
    assert found.batch_size == 1000
    assert found.warmup <= found.steps * found.gradient_steps / 10
    with pytest.raises(InputError, match="at least 1000 evaluations"):
        reverse_kl.within_budget(config, 999.0)


def test_a_budget_of_forward_kl_is_kept_by_looking_less() -> None:
    config = ForwardKLConfig(steps=40, monitor=2000)
    assert forward_kl.within_budget(config, 1e6) == config
    assert forward_kl.within_budget(config, 41_000.0) == replace(config, monitor=1025)
    assert forward_kl.within_budget(config, 10.0) == replace(config, monitor=0)
