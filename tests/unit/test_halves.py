"""Halves of a flow learned apart: their effective sizes, fits with a control variate, descents of the stiff half."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from boltzport.core.errors import RunError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import effective_fraction, effective_halves, normalised
from boltzport.flows import MolecularFlow
from boltzport.training import stiff
from boltzport.training.fit import FitConfig, FitData, fit
from boltzport.training.methods.cmt.pool import Pool
from boltzport.training.optimiser import Optimiser, OptimiserConfig, Schedule
from boltzport.training.stiff import KnownPoints, StiffConfig, descend_stiff, forward_path_loss, stiff_path_loss
from gradients import flat
from molecular_flows import BOND, OMEGA, SMALL, draw, new_flow, random_flow, seeded
from trainings import quiet

LAYOUT = Layout([BOND, circle(), interval(-5.0, 5.0, centre=0.5, width=1.0), OMEGA])
PLAIN = OptimiserConfig(
    learning_rate=3e-3, warmup=0, schedule=Schedule.CONSTANT, weight_decay=0.0, max_gradient_norm=1e3, average=0.0
)


class Recorder(Optimiser):
    """Keeps gradients, and moves nothing."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, PLAIN)
        self.parameters, self.gradients = parameters, []

    def step(self, loss: Tensor, *, progress: float) -> float:
        assert 0.0 <= progress <= 1.0
        self.gradients.append(flat(torch.autograd.grad(loss, self.parameters)))
        return 0.0

    @property
    def found(self) -> Tensor:
        return torch.stack(self.gradients)


# Effective sizes of the halves.


def test_halves_that_are_exact_have_all_their_points() -> None:
    assert effective_halves(torch.full((5, 3), -7.0).double()) == (1.0, 1.0)


def test_only_the_half_that_falls_short_is_blamed() -> None:
    generator = seeded(0)
    torsions, inner = (torch.randn(400, n, generator=generator, dtype=torch.float64) for n in (1, 64))
    found = effective_halves(torsions.expand(400, 64))
    assert found.stiff == pytest.approx(1.0)
    assert found.torsions == pytest.approx(effective_fraction(torsions[:, 0]))
    # Log-weights of the same few values for all torsions: their effective fraction, exactly.
    found = effective_halves(inner[:1].expand(400, 64) + 100.0)
    assert found.torsions == pytest.approx(1.0)
    assert found.stiff == pytest.approx(effective_fraction(inner[0]))


def test_both_halves_at_once_and_points_that_failed() -> None:
    weights = torch.tensor([[1.0, 3.0], [2.0, 2.0], [0.0, 8.0]], dtype=torch.float64)
    log_weights = weights.log()
    log_weights[2, 0] = math.nan
    found = effective_halves(log_weights - 3.0)
    # Means 2, 2 and 4; within them 4 / 5, 1 and 1 / 2, in proportion to the means.
    assert found.torsions == pytest.approx((8 / 3) ** 2 / ((4 + 4 + 16) / 3))
    assert found.stiff == pytest.approx((2 * 0.8 + 2 * 1.0 + 4 * 0.5) / 8)


def test_halves_of_normal_weights() -> None:
    """Log-weights of variances a and b: exp(-a) and exp(-b) of the points."""
    generator = seeded(1)
    outer = 0.6 * torch.randn(4000, 1, generator=generator, dtype=torch.float64)
    inner = 0.4 * torch.randn(4000, 200, generator=generator, dtype=torch.float64)
    found = effective_halves(outer + inner)
    assert found.torsions == pytest.approx(math.exp(-0.36), abs=0.03)
    assert found.stiff == pytest.approx(math.exp(-0.16), abs=0.01)


# The control variate of a fit.


def fit_once(flow: MolecularFlow, data: FitData, batch: int) -> Tensor:
    """Gradients of all batches of one pass over the points, the flow unchanged."""
    recorder = Recorder(list(flow.parameters()))
    config = FitConfig(gradient_steps=data.size // batch, batch_size=batch, hold_out=0.0)
    fit(flow.log_prob, recorder, data, config, generator=seeded(2), progress=quiet, span=(0.0, 1.0))
    return recorder.found


def drawn_data(drawing: MolecularFlow, wanted: MolecularFlow, n: int) -> FitData:
    coordinates, log_q = draw(drawing, n, seed=3)
    with torch.no_grad():
        log_density = wanted.log_prob(coordinates)
    return FitData(coordinates, log_density - log_q, log_density, log_q)


def close_flows(*scales: float) -> list[MolecularFlow]:
    """Flows near one another, none of them at its initial density."""
    flows = []
    for number, scale in enumerate(scales):
        flow = random_flow(LAYOUT, seed=4, scale=0.05)
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter += scale * torch.randn(parameter.shape, generator=seeded(50 + number), dtype=torch.float64)
        flows.append(flow)
    return flows


def test_the_control_variate_does_not_change_the_mean_gradient() -> None:
    drawing, wanted, fitted = close_flows(0.0, 0.02, 0.01)
    data = drawn_data(drawing, wanted, 16_000)
    plain, controlled = (fit_once(fitted, part, 200) for part in (data._replace(log_drawn=None), data))
    difference = controlled - plain
    error = (difference.var(0) / len(difference)).sqrt() + 1e-9
    assert float((difference.mean(0) / error).square().mean().sqrt()) < 1.6
    # There is a mean to compare.
    assert float(plain.mean(0).norm()) > 3 * float((plain.var(0) / len(plain)).sqrt().norm())


def test_the_control_variate_has_no_noise_where_the_flow_is_the_density() -> None:
    drawing, wanted = close_flows(0.0, 0.015)
    data = drawn_data(wanted, wanted, 4000)
    plain, controlled = (fit_once(wanted, part, 200) for part in (data._replace(log_drawn=None), data))
    assert float(plain.abs().max()) > 0.1
    assert float(controlled.abs().max()) < 1e-6
    # Points of another flow: what is left is the error of the mean weight, common to all points.
    data = drawn_data(drawing, wanted, 10_000)
    plain, controlled = (fit_once(wanted, part, 200) for part in (data._replace(log_drawn=None), data))
    assert float(controlled.var(0).sum()) < 2e-3 * float(plain.var(0).sum())


def test_a_pool_of_buffers_is_a_sample_of_their_common_density() -> None:
    """Buffers of unlike sizes and worths; the oldest is let go, and the control variate takes the noise of all."""
    *drawing, wanted = close_flows(0.0, 0.01, 0.05, 0.01)
    buffers = [drawn_data(flow, wanted, n) for flow, n in zip(drawing, (500, 8000, 3000), strict=True)]
    pool = Pool(2)
    for data in buffers:
        pool.add(data)
    again = Pool(2)
    again.restore(copy.deepcopy(pool.save()))
    data = again.data
    assert torch.equal(data.coordinates, torch.cat([part.coordinates for part in buffers[1:]]))
    assert all(torch.equal(one, other) for one, other in zip(data, pool.data, strict=True))
    weights = normalised(data.log_weights)
    mean = float((weights * data.coordinates[:, 2]).sum())
    exact, _ = draw(wanted, 20_000, seed=9)
    assert mean == pytest.approx(float(exact[:, 2].mean()), abs=0.08)
    # A buffer whose weights are even counts for more than its number of points.
    assert float(weights[:8000].sum()) > 8 / 11
    plain, controlled = (fit_once(wanted, part, 200) for part in (data._replace(log_drawn=None), data))
    assert float(controlled.var(0).sum()) < 5e-3 * float(plain.var(0).sum())


def test_a_fit_with_the_control_variate_learns() -> None:
    drawing, wanted, fitted = close_flows(0.0, 0.05, 0.0)
    optimiser = Optimiser(fitted.parameters(), PLAIN)
    config = FitConfig(gradient_steps=100, batch_size=300, hold_out=0.2)
    data = drawn_data(drawing, wanted, 6000)
    found = fit(fitted.log_prob, optimiser, data, config, generator=seeded(5), progress=quiet, span=(0.0, 1.0))
    assert found.gradient_steps == 100
    assert found.after < 0.3 * found.before


@pytest.mark.parametrize("constant", [0.0, -50.0, 50.0])
def test_a_fit_stops_when_it_has_gained_enough_whatever_the_constant(constant: float) -> None:
    """A density known up to a constant makes divergences of any sign; only their changes count."""
    drawing, wanted, fitted = close_flows(0.0, 0.05, 0.0)
    data = drawn_data(drawing, wanted, 5000)
    data = data._replace(log_density=data.log_density + constant)
    config = FitConfig(gradient_steps=400, batch_size=500, hold_out=0.2, enough=2e-3, check_every=10)
    optimiser = Optimiser(fitted.parameters(), PLAIN)
    found = fit(fitted.log_prob, optimiser, data, config, generator=seeded(5), progress=quiet, span=(0.0, 1.0))
    assert 10 < found.gradient_steps < 400
    assert found.gradient_steps % 10 == 0
    assert found.before - found.after > 2e-3


# Path gradients of the stiff half.


def conditional(x: Tensor) -> Tensor:
    """A normal density of the stiff coordinates given the torsions, correlated; and some density of the torsions."""
    bond = (x[:, 0] - 0.112 - 0.004 * torch.cos(x[:, 1])) / 0.007
    other = (x[:, 2] - 0.3 - 0.5 * torch.sin(x[:, 3]) - 0.2 * bond) / 0.8
    return -0.5 * bond**2 - 0.5 * other**2 + torch.cos(x[:, 1] - 1.0)


def gradient_of(loss: Tensor, flow: MolecularFlow) -> Tensor:
    return flat(torch.autograd.grad(loss, flow.stiff_parameters))


def test_the_path_gradient_is_that_of_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Point by point: derivatives by the samples alone, with a flow whose parameters stand still."""
    monkeypatch.setattr(stiff, "STEEPEST", 1e9)
    flow = random_flow(LAYOUT, seed=6)
    frozen = copy.deepcopy(flow).requires_grad_(requires_grad=False)
    points, _ = draw(flow, 300)
    found = gradient_of(stiff_path_loss(flow, conditional, points, generator=seeded(7)), flow)
    samples = flow.sample_stiff(points, generator=seeded(7)).coordinates
    expected = gradient_of((frozen.stiff_log_prob(samples) - conditional(samples)).mean(), flow)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert expected.norm() > 0.1


def test_the_path_gradient_is_that_of_the_divergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against the gradient of KL(q(s|t) || p(s|t)) through the samples, its score included, on average."""
    monkeypatch.setattr(stiff, "STEEPEST", 1e9)
    flow = random_flow(LAYOUT, seed=8)
    points, _ = draw(flow, 1000)
    differences, paths = [], []
    for seed in range(40):
        path = gradient_of(stiff_path_loss(flow, conditional, points, generator=seeded(seed)), flow)
        samples, log_q = flow.sample_stiff(points, generator=seeded(seed))
        whole = gradient_of((log_q - conditional(samples)).mean(), flow)
        paths.append(path)
        differences.append(path - whole)
    difference = torch.stack(differences)
    error = (difference.var(0) / len(difference)).sqrt() + 1e-9
    assert float((difference.mean(0) / error).square().mean().sqrt()) < 1.6
    assert float(torch.stack(paths).mean(0).norm()) > 3 * float(error.norm())


def test_no_noise_where_the_flow_is_the_density() -> None:
    flow = random_flow(LAYOUT, seed=9)
    frozen = copy.deepcopy(flow)
    points, _ = draw(flow, 200)

    def exact(x: Tensor) -> Tensor:
        return frozen.stiff_log_prob(x) + 3.0 * torch.cos(x[:, 1]) - 7.0

    assert gradient_of(stiff_path_loss(flow, exact, points, generator=seeded(1)), flow).abs().max() < 1e-9
    assert gradient_of(stiff_path_loss(flow, conditional, points, generator=seeded(1)), flow).abs().max() > 0.01


def known_points(wanted: MolecularFlow, n: int, *, seed: int) -> KnownPoints:
    """Points whose stiff coordinates are of a flow, and the slope of its density."""
    points, _ = draw(wanted, n, seed=seed)
    held = points.detach().requires_grad_()
    (slope,) = torch.autograd.grad(wanted.stiff_log_prob(held).sum(), held)
    return KnownPoints(points, slope)


def test_the_forward_path_gradient_is_that_of_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of KL(p(s|t) || q(s|t)) at points of p, on average."""
    monkeypatch.setattr(stiff, "STEEPEST", 1e9)
    wanted, flow = random_flow(LAYOUT, seed=20, scale=0.1), random_flow(LAYOUT, seed=21, scale=0.1)
    differences, paths, likelihoods = [], [], []
    for seed in range(60):
        known = known_points(wanted, 1000, seed=seed)
        paths.append(gradient_of(forward_path_loss(flow, known), flow))
        likelihoods.append(gradient_of(-flow.stiff_log_prob(known.coordinates).mean(), flow))
        differences.append(paths[-1] - likelihoods[-1])
    difference = torch.stack(differences)
    error = (difference.var(0) / len(difference)).sqrt() + 1e-9
    assert float((difference.mean(0) / error).square().mean().sqrt()) < 1.6
    assert float(torch.stack(likelihoods).mean(0).norm()) > 3 * float(error.norm())


def test_the_forward_path_gradient_has_no_noise_where_the_flow_is_the_density() -> None:
    wanted, other = random_flow(LAYOUT, seed=22), random_flow(LAYOUT, seed=23)
    known = known_points(wanted, 200, seed=1)
    assert gradient_of(forward_path_loss(wanted, known), wanted).abs().max() < 1e-8
    assert gradient_of(forward_path_loss(other, known), other).abs().max() > 0.01
    assert gradient_of(-wanted.stiff_log_prob(known.coordinates).mean(), wanted).abs().max() > 0.01


@pytest.mark.parametrize("forward", [0.5, 1.0])
def test_a_descent_learns_from_points_of_the_density(forward: float) -> None:
    wanted, flow = random_flow(LAYOUT, seed=24, scale=0.1), new_flow(LAYOUT)
    known, test = (known_points(wanted, 4000, seed=seed) for seed in (2, 3))
    with torch.no_grad():
        least = -float(wanted.stiff_log_prob(test.coordinates).mean())
        before = -float(flow.stiff_log_prob(test.coordinates).mean()) - least

    descend_stiff(
        flow,
        Optimiser(flow.stiff_parameters, PLAIN),
        wanted.stiff_log_prob,
        lambda n: known.coordinates[:n],
        StiffConfig(gradient_steps=200, batch_size=100, forward=forward),
        generator=seeded(12),
        progress=quiet,
        span=(0.0, 1.0),
        known=known,
    )
    with torch.no_grad():
        after = -float(flow.stiff_log_prob(test.coordinates).mean()) - least
    assert before > 0.05
    assert after < 0.3 * before


def test_a_descent_learns_the_stiff_half_and_moves_no_torsion() -> None:
    flow = new_flow(LAYOUT)
    before = copy.deepcopy(flow)
    optimiser = Optimiser(flow.stiff_parameters, PLAIN)
    points, _ = draw(flow, 2000)
    drawing = seeded(10)

    def torsions(n: int) -> Tensor:
        return points[torch.randint(len(points), (n,), generator=drawing)]

    def spread(of: MolecularFlow) -> float:
        with torch.no_grad():
            samples, log_q = of.sample_stiff(points, generator=seeded(11))
            # Its divergence from the conditional density, up to what the torsions' density adds for all flows alike.
            return float((log_q - conditional(samples) + torch.cos(points[:, 1] - 1.0)).mean())

    descend_stiff(
        flow,
        optimiser,
        conditional,
        torsions,
        StiffConfig(gradient_steps=200, batch_size=100),
        generator=seeded(12),
        progress=quiet,
        span=(0.0, 1.0),
    )
    least = -2 * 0.5 * math.log(2 * math.pi) - math.log(0.007 * 0.8)
    assert spread(before) - least > 0.3
    assert spread(flow) - least < 0.1 * (spread(before) - least)
    for new, old in zip(flow.torsion_parameters, before.torsion_parameters, strict=True):
        assert torch.equal(new, old)
    assert any(
        not torch.equal(new, old) for new, old in zip(flow.stiff_parameters, before.stiff_parameters, strict=True)
    )


def test_the_least_divergence_is_that_of_the_normal_density() -> None:
    """The number that the descent is measured by: minus the log of the normalising constant given the torsions."""
    u = torch.linspace(-9, 9, 600, dtype=torch.float64)
    grid = torch.cartesian_prod(0.112 + 0.007 * u, 0.3 + 0.8 * u)
    points = torch.stack([grid[:, 0], torch.full_like(grid[:, 0], 0.7), grid[:, 1], torch.zeros_like(grid[:, 0])], 1)
    cell = float(u[1] - u[0]) ** 2 * 0.007 * 0.8
    total = float((conditional(points) - math.cos(0.7 - 1.0)).exp().sum()) * cell
    assert -math.log(total) == pytest.approx(-math.log(2 * math.pi) - math.log(0.007 * 0.8), abs=1e-6)


@pytest.mark.parametrize("kind", ["slope", "value", "clash"])
def test_a_target_that_is_infinite_somewhere_does_not_break_it(kind: str) -> None:
    flow = random_flow(LAYOUT, seed=13)
    points, _ = draw(flow, 400)
    edge = float(points[:, 2].quantile(0.8))

    def broken(x: Tensor) -> Tensor:
        beyond = x[:, 2] - edge
        if kind == "slope":
            # A root at zero: its value is finite, its slope is not.
            chosen = (beyond > 0).nonzero()[:, 0]
            return conditional(x).index_add(0, chosen, (beyond - beyond.detach())[chosen].sqrt())
        if kind == "value":
            return torch.where(beyond > 0, -torch.inf, conditional(x))
        return conditional(x) - 1e30 * beyond.clamp_min(0.0)

    found = gradient_of(stiff_path_loss(flow, broken, points, generator=seeded(14)), flow)
    assert found.isfinite().all()
    sane = gradient_of(stiff_path_loss(flow, conditional, points, generator=seeded(14)), flow)
    # A fifth of the points can neither rule the others nor silence them.
    assert 0.1 * sane.norm() < found.norm() < 10 * sane.norm()


def test_points_that_would_overflow_do_not_break_it() -> None:
    """Heavy tails, one coupling after another, take a coordinate beyond all numbers of single precision."""
    flow = random_flow(LAYOUT, seed=17, config=replace(SMALL, pairs=3)).float()
    with torch.no_grad():
        for name, bias in flow.named_parameters():
            if "stiff" in name and "head_bias" in name:
                _, _, skew, tail = bias.view(4, -1)
                skew += 8.0
                tail -= 8.0
    points = draw(flow, 2000)[0].float()
    samples = flow.sample_stiff(points, generator=seeded(18)).coordinates
    assert not samples.isfinite().all()
    assert gradient_of(stiff_path_loss(flow, conditional, points, generator=seeded(18)), flow).isfinite().all()


def test_a_target_that_fails_everywhere_moves_nothing() -> None:
    flow = random_flow(LAYOUT, seed=15)
    points, _ = draw(flow, 50)
    loss = stiff_path_loss(flow, lambda x: conditional(x) * torch.nan, points, generator=seeded(1))
    assert (gradient_of(loss, flow) == 0).all()


def test_a_gradient_that_is_not_finite_is_an_error() -> None:
    flow = random_flow(LAYOUT, seed=16)
    points, _ = draw(flow, 50)
    with torch.no_grad():
        flow.stiff_parameters[0].fill_(math.nan)
    with pytest.raises(RunError, match="not finite"):
        descend_stiff(
            flow,
            Optimiser(flow.stiff_parameters, PLAIN),
            conditional,
            lambda n: points[:n],
            StiffConfig(gradient_steps=2, batch_size=20),
            generator=seeded(17),
            progress=quiet,
            span=(0.0, 1.0),
        )
