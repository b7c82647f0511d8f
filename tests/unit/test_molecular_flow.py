"""Laws of the flow made for molecules: its density, its samples and its halves, on layouts of every sort."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.flows import MolecularConfig, MolecularFlow
from molecular_flows import ANGLE, BOND, LAYOUTS, MIXED, OMEGA, draw, later, new_flow, random_flow, seeded

every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


@every_layout
def test_density_of_samples_is_the_same_both_ways(layout: Layout) -> None:
    flow = random_flow(layout, seed=1)
    coordinates, log_q = draw(flow, 300)
    torch.testing.assert_close(flow.log_prob(coordinates), log_q, rtol=0, atol=1e-8)
    assert log_q.std() > 0.2


@every_layout
def test_log_det_is_that_of_autograd(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the whole map from uniform and normal numbers to coordinates, as it is sampled."""
    flow = random_flow(layout, seed=2)
    count = len(flow.torsions)
    for seed in range(3):
        base = base_point(flow, seed)
        jacobian, log_q = sampling_jacobian(flow, base, monkeypatch)
        log_base = torch.distributions.Normal(0.0, 1.0).log_prob(base[count:]).sum()
        expected = log_base - torch.linalg.slogdet(jacobian).logabsdet
        assert log_q.item() == pytest.approx(expected.item(), abs=1e-8)


def base_point(flow: MolecularFlow, seed: int) -> Tensor:
    """Uniform numbers of the torsions, then normal ones of the stiff coordinates."""
    generator = seeded(seed)
    uniform = torch.rand(len(flow.torsions), generator=generator, dtype=torch.float64)
    return torch.cat([uniform, torch.randn(len(flow.stiff), generator=generator, dtype=torch.float64)])


def sampling_jacobian(flow: MolecularFlow, base: Tensor, monkeypatch: pytest.MonkeyPatch) -> tuple[Tensor, Tensor]:
    """Jacobian of coordinates by random numbers, by giving the flow those it asks for; and the log density."""
    count, found = len(flow.torsions), []

    def sampled(numbers: Tensor) -> Tensor:
        with monkeypatch.context() as patched:
            patched.setattr(torch, "rand", lambda *_, **__: numbers[:count, None])
            patched.setattr(torch, "randn", lambda *_, **__: numbers[count:, None])
            samples = flow.sample_and_log_prob(1, generator=seeded(0))
        found.append(samples.log_q.detach()[0])
        return samples.coordinates[0]

    jacobian = torch.autograd.functional.jacobian(sampled, base)
    return jacobian, found[0]


LINE = interval(0.0, 1.0)
ORDERS = {
    "mixed": (MIXED, [2, 5, 3, 0], [1, 4, 6]),
    "reversed": (Layout([later(circle(), 3.0), later(OMEGA, 2.0), later(circle(0.0, 1.0), 1.0), BOND]), [2, 1, 0], [3]),
    "as they stand": (Layout([circle(), BOND, OMEGA, circle(), ANGLE]), [0, 2, 3], [1, 4]),
    "intervals first": (Layout([circle(), later(LINE, 5.0), later(LINE, 4.0)]), [2, 1, 0], []),
}  # fmt: skip


@pytest.mark.parametrize(("layout", "torsions", "stiff"), ORDERS.values(), ids=ORDERS)
def test_torsions_come_one_after_another_in_their_order_and_stiff_ones_last(
    layout: Layout, torsions: list[int], stiff: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A torsion depends on its own random number and on those before it, and on no normal one."""
    flow = random_flow(layout, seed=3)
    assert flow.torsions.tolist() == torsions
    assert flow.stiff.tolist() == stiff
    jacobian, _ = sampling_jacobian(flow, base_point(flow, 4), monkeypatch)
    rows, count = jacobian[torsions], len(torsions)
    assert (rows[:, :count].triu(1) == 0).all()
    assert (rows[:, count:] == 0).all()
    # The others are there.
    assert (rows[:, :count][torch.ones(count, count).tril().bool()].abs() > 1e-6).all()
    assert (jacobian[stiff].abs() > 1e-9).all()


def test_a_torsion_given_those_before_it_depends_on_no_other() -> None:
    """The slope of the density along the last torsion is all that a change of the last one makes."""
    flow = random_flow(MIXED, seed=5)
    points, _ = draw(flow, 20)
    moved, _ = draw(flow, 20, seed=1)
    *_, before, last = flow.torsions.tolist()
    # Exchanging the stiff coordinates changes nothing of the torsions' density.
    other = points.clone()
    other[:, flow.stiff] = moved[:, flow.stiff]
    assert torch.equal(flow.torsion_log_prob(points), flow.torsion_log_prob(other))
    # With the last torsion integrated out, the density of the others is that of a flow of those others alone.
    n = 2000
    axis = flow.layout[last]
    nodes = axis.lower + (axis.upper - axis.lower) * (torch.arange(n, dtype=torch.float64) + 0.5) / n
    marginals = []
    for value in moved[:2, last]:
        start = points[0].clone()
        start[last] = value
        line = start.repeat(n, 1)
        line[:, last] = nodes
        with torch.no_grad():
            marginals.append(flow.torsion_log_prob(line).exp().mean() * (axis.upper - axis.lower))
    torch.testing.assert_close(marginals[0], marginals[1], rtol=0, atol=1e-12)
    # Networks of later torsions have no part in it.
    shorter = Layout([axis for i, axis in enumerate(MIXED) if i != last])
    alone = new_flow(shorter)
    for k, network in enumerate(alone.torsion_half.networks):
        network.load_state_dict(flow.torsion_half.networks[k].state_dict())
    keep = [i for i in range(len(MIXED)) if i != last]
    expected = alone.torsion_log_prob(points[:1, keep]).exp()[0]
    assert marginals[0].item() == pytest.approx(expected.item(), rel=1e-4)
    assert before in keep


class Grid:
    """Cells over the plane of two coordinates: evenly on a turn, by the arcsinh of the deviation where it is stiff."""

    def __init__(self, flow: MolecularFlow, cells: int) -> None:
        places = (torch.arange(cells, dtype=torch.float64) + 0.5) / cells
        self.parts = [self._axis(axis, places, stiff=i in flow.stiff.tolist()) for i, axis in enumerate(flow.layout)]
        self.flow = flow

    @staticmethod
    def _axis(axis: Axis, places: Tensor, *, stiff: bool) -> tuple[Tensor, Tensor]:
        """Nodes, and the length that each stands for."""
        n = len(places)
        if not stiff:
            length = axis.upper - axis.lower
            return axis.lower + length * places, torch.full((n,), length / n, dtype=torch.float64)
        u = REACH * (2 * places - 1)
        return axis.centre + axis.width * u.sinh(), axis.width * u.cosh() * 2 * REACH / n

    def masses(self, log_prob: Callable[[Tensor], Tensor]) -> Tensor:
        (first, wide), (second, high) = self.parts
        rows = []
        with torch.no_grad():
            for value, length in zip(first.split(50), wide.split(50), strict=True):
                density = log_prob(torch.cartesian_prod(value, second)).exp().view(len(value), -1)
                rows.append(density * length[:, None] * high)
        return torch.cat(rows)

    def places(self, coordinates: Tensor) -> Tensor:
        """The unit square that the cells divide evenly."""
        columns = []
        for i, axis in enumerate(self.flow.layout):
            if i in self.flow.stiff.tolist():
                columns.append(0.5 + 0.5 * torch.asinh((coordinates[:, i] - axis.centre) / axis.width) / REACH)
            else:
                columns.append((coordinates[:, i] - axis.lower) / (axis.upper - axis.lower))
        return torch.stack(columns, 1)


REACH = 7.0
"""Of a stiff coordinate: 550 widths."""
PLANES = {
    "torsion and stiff": Layout([circle(), ANGLE]),
    "stiff and omega": Layout([BOND, OMEGA]),
    "two torsions": Layout([OMEGA, circle(0.0, 1.0)]),
    "interval and torsion": Layout([circle(), interval(-1.0, 3.0)]),
    "two stiff": Layout([BOND, interval(-5.0, 5.0, centre=0.5, width=1.0)]),
}
every_plane = pytest.mark.parametrize("layout", PLANES.values(), ids=PLANES)


@every_plane
def test_density_integrates_to_one(layout: Layout) -> None:
    flow = random_flow(layout, seed=10)
    total = Grid(flow, 600).masses(flow.log_prob).sum().item()
    assert total == pytest.approx(1.0, abs=2e-4)


@every_plane
def test_samples_follow_the_density(layout: Layout) -> None:
    flow = random_flow(layout, seed=7)
    with torch.no_grad():
        plain = flow.sample(60_000, generator=seeded(8))
        halved = flow.sample_by_halves(60_000, 1, generator=seeded(9)).coordinates
    for coordinates in (plain, halved):
        assert chi_square(flow, coordinates) < 1.5
    # The test has power: points that are a little too broad fail it.
    centre = plain.mean(0)
    assert chi_square(flow, centre + 1.05 * (plain - centre)) > 1.8


def chi_square(flow: MolecularFlow, coordinates: Tensor) -> float:
    """Reduced chi-square of points in cells, of those that expect enough of them."""
    cells, fine = 30, 16
    grid = Grid(flow, cells * fine)
    expected = grid.masses(flow.log_prob).view(cells, fine, cells, fine).sum((1, 3)).numpy() * len(coordinates)
    counts = np.histogramdd(grid.places(coordinates).numpy(), bins=[cells, cells], range=[(0, 1), (0, 1)])[0]
    enough = expected > 10
    return float(((counts - expected)[enough] ** 2 / expected[enough]).sum() / enough.sum())


def test_a_turn_has_no_seam() -> None:
    """The density is the same a whole turn away, and its value and slope go on where the ends of a range meet."""
    flow = random_flow(MIXED, seed=10)
    points, log_q = draw(flow, 50)
    for i in (0, 3, 5):
        shifted = points.clone()
        shifted[:, i] += 2 * math.pi * torch.randint(-3, 4, (50,), generator=seeded(i)).double()
        torch.testing.assert_close(flow.log_prob(shifted), log_q, rtol=0, atol=1e-7)
    for i in (0, 3, 5):
        axis, step = MIXED[i], 1e-9
        ends = points.repeat(2, 1)
        ends[:50, i], ends[50:, i] = axis.lower + step, axis.upper - step
        ends.requires_grad_()
        found = flow.log_prob(ends)
        (slopes,) = torch.autograd.grad(found.sum(), ends)
        torch.testing.assert_close(found[:50], found[50:], rtol=0, atol=1e-4)
        others = [k for k in range(len(MIXED)) if k != i]
        torch.testing.assert_close(slopes[:50, others], slopes[50:, others], rtol=1e-3, atol=1e-3)
    # An interval that is not a turn has two ends.
    ends = points[:1].repeat(2, 1)
    ends[:, 2] = torch.tensor([-1.0 + 1e-9, 3.0 - 1e-9])
    assert abs(flow.torsion_log_prob(ends).diff().item()) > 1e-2
    assert abs(flow.stiff_log_prob(ends).diff().item()) > 1e-3


def test_gradients_match_differences() -> None:
    """Of the density by its points, and of a function of the samples by the parameters."""
    flow = random_flow(MIXED, seed=11)
    points, _ = draw(flow, 4)
    assert torch.autograd.gradcheck(flow.log_prob, (points.requires_grad_(),), atol=1e-4, rtol=1e-4)

    def value() -> Tensor:
        samples = flow.sample_and_log_prob(20, generator=seeded(12))
        return (samples.log_q + samples.coordinates.cos().sum(1)).mean() + flow.log_prob(points.detach()).mean()

    parameters = list(flow.parameters())
    gradients = torch.autograd.grad(value(), parameters)
    generator, step = seeded(13), 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        values = []
        with torch.no_grad():
            for sign in (1, -1):
                parameter += sign * step * direction
                values.append(value().item())
                parameter -= sign * step * direction
        expected = (values[0] - values[1]) / (2 * step)
        assert (gradient * direction).sum().item() == pytest.approx(expected, rel=1e-3, abs=1e-5)


STRANGE = [math.nan, math.inf, -math.inf, 1e30, -1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_layout
def test_no_input_gives_nan(layout: Layout, dtype: torch.dtype) -> None:
    flow = random_flow(layout, seed=14).to(dtype)
    good, _ = draw(flow, 1)
    rows = [good[0]]
    for i in range(len(layout)):
        for value in [*STRANGE, torch.finfo(dtype).max]:
            row = good[0].clone()
            row[i] = value
            rows.append(row)
    for value in STRANGE:
        rows.append(torch.full((len(layout),), value, dtype=dtype))
    points = torch.stack(rows).requires_grad_()
    for function in (flow.log_prob, flow.torsion_log_prob, flow.stiff_log_prob, flow.initial_log_prob):
        found = function(points)
        assert not found.isnan().any()
        assert found[0].isfinite()
        assert not found.isposinf().any()
        used, loss = (points, *flow.parameters()), found.nan_to_num(neginf=0.0).sum()
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, used, allow_unused=True)
            assert all(part.isfinite().all() for part in gradients if part is not None)
    log_q = flow.log_prob(points)
    (gradient,) = torch.autograd.grad(log_q.nan_to_num(neginf=0.0).sum(), points)
    assert log_q[~points.isfinite().all(1)].isneginf().all()
    assert (gradient[log_q.isneginf()] == 0).all()


def test_outside_the_range_of_an_interval_there_is_nothing_and_stiff_ones_have_no_range() -> None:
    flow = random_flow(MIXED, seed=15)
    points, _ = draw(flow, 3)
    points[0, 2] = 3.001
    points[1, 2] = -1.001
    points[2, 1] = 0.17
    points[2, 4] = 2.6
    assert flow.log_prob(points).isneginf().tolist() == [True, True, False]
    # The half of a turn that a handedness does not allow.
    points[2, 5] = -points[2, 5]
    assert flow.log_prob(points).isneginf().all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_points_far_away_give_no_nan_in_float32(scale: float) -> None:
    """Nor a gradient that is not finite: couplings take what is far ever farther on the way to the base."""
    config = MolecularConfig(torsion_hidden=(32,), hidden=(32, 32))
    flow = random_flow(MIXED, seed=16, scale=scale, config=config).float()
    points, _ = draw(flow, 200)
    points = points[points.isfinite().all(1)]
    far = points.clone()
    signs = torch.randn(len(points), len(flow.stiff), generator=seeded(1)).sign()
    far[:, flow.stiff] = (flow.centre + 990 * signs * flow.width).float()
    used = torch.cat([points, far]).requires_grad_()
    log_q = flow.log_prob(used)
    assert not log_q.isnan().any()
    gradients = torch.autograd.grad(log_q.nan_to_num(neginf=0.0).sum(), (used, *flow.parameters()))
    assert all(part.isfinite().all() for part in gradients)
    assert (gradients[0][log_q.isneginf()] == 0).all()


@every_layout
def test_the_halves_add_up(layout: Layout) -> None:
    flow = random_flow(layout, seed=17)
    points, log_q = draw(flow, 100)
    torch.testing.assert_close(flow.torsion_log_prob(points) + flow.stiff_log_prob(points), log_q, rtol=0, atol=1e-8)
    assert sorted(flow.torsions.tolist() + flow.stiff.tolist()) == list(range(len(layout)))
    first, second = ({id(part) for part in half} for half in (flow.torsion_parameters, flow.stiff_parameters))
    assert not first & second
    assert first | second == {id(part) for part in flow.parameters()}
    unit = flow.unit
    for i, axis in enumerate(layout):
        expected = axis.upper - axis.lower if i in flow.torsions.tolist() else axis.width
        assert unit[i].item() == pytest.approx(expected)


def test_a_renewed_stiff_half_is_as_before_any_training() -> None:
    """And stays with its parameters, so that an optimiser goes on to move them; the torsions are what they were."""
    flow, other = random_flow(MIXED, seed=5), new_flow(MIXED)
    x, _ = draw(flow, 200)
    torsions, parameters = flow.torsion_log_prob(x), flow.stiff_parameters
    assert not torch.allclose(flow.stiff_log_prob(x), other.stiff_log_prob(x))
    flow.renew_stiff(generator=seeded(3))
    torch.testing.assert_close(flow.stiff_log_prob(x), other.stiff_log_prob(x))
    assert torch.equal(flow.torsion_log_prob(x), torsions)
    assert all(one is two for one, two in zip(parameters, flow.stiff_parameters, strict=True))
    # Other generators give other masks and weights.
    once, twice = flow.state_dict(), new_flow(MIXED)
    twice.renew_stiff(generator=seeded(4))
    assert any(
        not torch.equal(once[name], value) for name, value in twice.stiff_half.state_dict(prefix="stiff_half.").items()
    )


def test_each_half_has_its_own_parameters() -> None:
    flow = random_flow(MIXED, seed=18)
    points, _ = draw(flow, 10)
    for function, own, others in (
        (flow.torsion_log_prob, flow.torsion_parameters, flow.stiff_parameters),
        (flow.stiff_log_prob, flow.stiff_parameters, flow.torsion_parameters),
    ):
        found = torch.autograd.grad(function(points).sum(), own + others, allow_unused=True)
        assert all(part is not None and (part != 0).any() for part in found[: len(own)] if part is None or part.numel())
        assert all(part is None or (part == 0).all() for part in found[len(own) :])


@every_layout
def test_stiff_coordinates_are_drawn_given_the_torsions(layout: Layout) -> None:
    flow = random_flow(layout, seed=19)
    points, _ = draw(flow, 100)
    with torch.no_grad():
        drawn = flow.sample_stiff(points, generator=seeded(20))
        flow.chunk = 32
        parts = flow.sample_stiff(points, generator=seeded(20))
    assert parts.coordinates.shape == points.shape
    for found in (drawn, parts):
        assert torch.equal(found.coordinates[:, flow.torsions], points[:, flow.torsions])
        torch.testing.assert_close(flow.stiff_log_prob(found.coordinates), found.log_q, rtol=0, atol=1e-8)
    if len(flow.stiff):
        assert (drawn.coordinates[:, flow.stiff] != points[:, flow.stiff]).all()


def test_several_stiff_points_for_each_set_of_torsions() -> None:
    flow = random_flow(MIXED, seed=21)
    with torch.no_grad():
        drawn = flow.sample_by_halves(40, 5, generator=seeded(22))
    sets = drawn.coordinates.view(40, 5, len(MIXED))
    torsions, stiff = sets[..., flow.torsions], sets[..., flow.stiff]
    assert torch.equal(torsions, torsions[:, :1].expand_as(torsions))
    assert len(torsions[:, 0].unique(dim=0)) == 40
    assert (stiff[:, 1:] != stiff[:, :-1]).all()
    torch.testing.assert_close(flow.log_prob(drawn.coordinates), drawn.log_q, rtol=0, atol=1e-8)


@every_layout
def test_the_slope_that_comes_with_samples_is_that_of_the_density(layout: Layout) -> None:
    """And the samples are those of `sample_stiff`, with the same derivatives by the parameters."""
    flow = random_flow(layout, seed=11)
    points, _ = draw(flow, 40)
    found = flow.sample_stiff_with_slope(points, generator=seeded(5))
    held = found.coordinates.detach().requires_grad_()
    (expected,) = torch.autograd.grad(flow.stiff_log_prob(held).sum(), held, allow_unused=True)
    expected = torch.zeros_like(held) if expected is None else expected
    torch.testing.assert_close(found.slope, expected[:, flow.stiff], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(found.log_q, flow.stiff_log_prob(held).detach())
    plain = flow.sample_stiff(points, generator=seeded(5)).coordinates
    torch.testing.assert_close(found.coordinates, plain)
    # Given where they are, the same points as if they had been drawn.
    again = flow.stiff_with_slope(plain.detach())
    torch.testing.assert_close(again.coordinates, plain)
    torch.testing.assert_close(again.slope, found.slope, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(again.log_q, found.log_q)
    if flow.stiff_parameters:
        weights = torch.randn(plain.shape, dtype=plain.dtype, generator=seeded(6))
        theirs, *ours = (
            torch.autograd.grad((weights * each).sum(), flow.stiff_parameters)
            for each in (plain, found.coordinates, again.coordinates)
        )
        for gradients in ours:
            for one, other in zip(gradients, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
