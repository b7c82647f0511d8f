"""Laws of the flow made for molecules: its density, its samples and its halves, on layouts of every sort."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.flows import MolecularFlow
from molecular_flows import ANGLE, BOND, MIXED, OMEGA, draw, every_layout, later, new_flow, random_flow, seeded


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
