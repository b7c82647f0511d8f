"""Laws of the splines of many bins, and of the density that a torsion begins with."""

import math

import pytest
import torch
from torch import Tensor

from boltzport.flows import spline as coarse
from boltzport.flows.molecular import fine_spline as fine
from boltzport.flows.molecular.fine_spline import MIN_BIN, fine_spline
from boltzport.flows.molecular.initial import OPPOSITE, narrow_turn
from boltzport.flows.spline import spline

BINS = 6


def random_case(
    dimensions: int, batch: int, intervals: int, *, scale: float, seed: int, bins: int = BINS
) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(dimensions, batch, generator=generator, dtype=torch.float64)
    raw = scale * torch.randn(3 * bins, dimensions, batch, generator=generator, dtype=torch.float64)
    return points, raw, scale * torch.randn(intervals, batch, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("intervals", [0, 1, 3])
def test_is_the_function_of_the_other_spline(intervals: int, inverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways to write one function, where the least bins agree: values, slopes and gradients."""
    monkeypatch.setattr(fine, "MIN_BIN", coarse.MIN_BIN)
    case = random_case(3, 200, intervals, scale=2.0, seed=1)
    case[0][:, :4] = torch.tensor([0.0, 1.0, -0.3, 1.2])
    results = []
    for function in (fine_spline, spline):
        arguments = [part.clone().requires_grad_() for part in case]
        found = function(*arguments, inverse=inverse)
        loss = (found.values.cos() + 0.3 * found.log_slopes).sum()
        results.append([*found, *torch.autograd.grad(loss, arguments)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_round_trip(first: bool, scale: float) -> None:
    points, raw, last = random_case(3, 300, 1, scale=scale, seed=2, bins=24)
    there = fine_spline(points, raw, last, inverse=first)
    back = fine_spline(there.values, raw, last, inverse=not first)
    # Where the function is nearly flat, rounding of its value is all that is known of the place.
    allowed = 1e-12 + 1e-14 * (-there.log_slopes).exp()
    assert ((back.values - points).abs() <= allowed).all()
    assert (there.values - points).abs().max() > 0.1


@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_those_of_the_values(inverse: bool) -> None:
    arguments = tuple(part.requires_grad_() for part in random_case(3, 4, 1, scale=1.5, seed=3))
    assert torch.autograd.gradcheck(lambda *parts: tuple(fine_spline(*parts, inverse=inverse)), arguments)


@pytest.mark.parametrize("inverse", [False, True])
def test_log_slope_is_the_slope(inverse: bool) -> None:
    points, raw, last = random_case(4, 200, 2, scale=1.0, seed=4)
    found = fine_spline(points, raw, last, inverse=inverse)
    ahead, behind = (fine_spline(points + step, raw, last, inverse=inverse).values for step in (1e-6, -1e-6))
    torch.testing.assert_close(found.log_slopes.exp(), (ahead - behind) / 2e-6, rtol=3e-4, atol=3e-4)


def test_a_circle_closes_and_an_interval_has_two_ends() -> None:
    _, raw, last = random_case(2, 1, 1, scale=2.0, seed=5)
    places = torch.tensor([0.0, 1e-9, 1.0 - 1e-9, 1.0], dtype=torch.float64).expand(2, -1)
    raw, last = raw.expand(-1, -1, 4), last.expand(-1, 4)
    for inverse in (False, True):
        found = fine_spline(places, raw, last, inverse=inverse)
        assert found.values[:, 0].tolist() == [0.0, 0.0]
        assert found.values[:, -1].tolist() == [1.0, 1.0]
        slopes = found.log_slopes
        assert slopes[1, 0].item() == pytest.approx(slopes[1, 3].item(), abs=1e-12)
        assert slopes[1, 1].item() == pytest.approx(slopes[1, 2].item(), abs=1e-4)
        assert abs(slopes[0, 0] - slopes[0, 3]) > 0.1


def test_a_change_of_the_first_slope_moves_both_ends_of_a_circle() -> None:
    _, raw, last = random_case(2, 2, 1, scale=1.0, seed=6)
    ends = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    raw = raw[..., :1].expand(-1, -1, 2).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(fine_spline(ends, raw, last, inverse=False).log_slopes.sum(), raw)
    first = gradient[2 * BINS]
    # The interval's first slope is that of its lower end alone, the circle's that of both.
    assert first[0, 0] > 0
    assert first[0, 1] == 0
    assert (first[1] > 0).all()


def test_no_bin_is_smaller_than_the_least() -> None:
    """Bins whose logits are far below the others have the least size exactly, wherever they lie."""
    logits = torch.tensor([-200.0, 0.0, -200.0, -200.0, 1.0, -200.0], dtype=torch.float64)
    heights = logits.flip(0)
    large = 1.0 - BINS * MIN_BIN
    widths_expected = MIN_BIN + large * logits.softmax(0)
    heights_expected = MIN_BIN + large * heights.softmax(0)
    knots, levels = (
        torch.cat([torch.zeros(1, dtype=torch.float64), sizes.cumsum(0)])
        for sizes in (widths_expected, heights_expected)
    )
    raw = torch.cat([logits, heights, torch.zeros(BINS, dtype=torch.float64)])[:, None, None].expand(-1, 1, BINS + 1)
    last = torch.zeros(1, BINS + 1, dtype=torch.float64)
    assert widths_expected.min().item() == pytest.approx(MIN_BIN)
    torch.testing.assert_close(fine_spline(knots[None], raw, last, inverse=False).values[0], levels, rtol=0, atol=1e-12)
    torch.testing.assert_close(fine_spline(levels[None], raw, last, inverse=True).values[0], knots, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inverse", [False, True])
def test_extreme_parameters_and_inputs(inverse: bool, dtype: torch.dtype) -> None:
    points, raw, last = random_case(3, 500, 1, scale=1e3, seed=7, bins=24)
    points[:, :6] = torch.tensor([0.0, 1.0, -1e9, 1e9, -1e-9, 1.0 + 1e-6], dtype=torch.float64)
    points, raw, last = (part.to(dtype).requires_grad_() for part in (points, raw, last))
    found = fine_spline(points, raw, last, inverse=inverse)
    (found.values.sum() + found.log_slopes.sum()).backward()
    for tensor in (*found, points.grad, raw.grad, last.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all()
    assert ((found.values >= 0) & (found.values <= 1)).all()
    assert points.grad is not None
    assert (points.grad[:, 2:4] == 0).all()


@pytest.mark.parametrize("inverse", [False, True])
def test_monotone(inverse: bool) -> None:
    _, raw, last = random_case(2, 1, 1, scale=3.0, seed=8, bins=24)
    places = torch.linspace(0, 1, 4001, dtype=torch.float64).expand(2, -1)
    values = fine_spline(places, raw.expand(-1, -1, 4001), last.expand(-1, 4001), inverse=inverse).values
    assert (values.diff(dim=1) > 0).all()


def test_zero_parameters_are_the_identity() -> None:
    points = torch.linspace(0, 1, 101, dtype=torch.float64).expand(2, -1)
    zeros = torch.zeros(3 * BINS, 2, 101, dtype=torch.float64)
    found = fine_spline(points, zeros, zeros[0, :1], inverse=False)
    torch.testing.assert_close(found.values, points)
    assert found.log_slopes.abs().max() < 1e-10


TURNS = [(0.5, 0.02), (0.5, 0.06), (0.13, 0.03), (0.97, 0.04)]
"""Mode and width, in turns; an omega torsion is the first."""


def turn_density(centre: float, width: float, places: Tensor, *, bins: int = 24) -> Tensor:
    n = len(places)
    raw = narrow_turn(centre, width, bins)[:, None, None].expand(-1, 1, n)
    return fine_spline(places[None], raw, torch.zeros(0, n, dtype=torch.float64), inverse=False).log_slopes[0].exp()


def mixture(centre: float, width: float, places: Tensor) -> Tensor:
    """A normal on a turn and a little of it half a turn away."""
    total = torch.zeros_like(places)
    for turn in range(-2, 3):
        for part, mode in ((1 - OPPOSITE, centre), (OPPOSITE, centre + 0.5)):
            total += part * torch.distributions.Normal(mode + turn, width).log_prob(places).exp()
    return total


@pytest.mark.parametrize(("centre", "width"), TURNS)
def test_a_narrow_turn_is_the_mixture_that_it_claims(centre: float, width: float) -> None:
    n = 40_000
    places = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    found, expected = turn_density(centre, width, places), mixture(centre, width, places)
    assert found.mean().item() == pytest.approx(1.0, abs=1e-5)
    assert (expected * (expected / found).log()).mean() < 0.01
    assert 0.5 * (found - expected).abs().mean() < 0.03
    away = torch.minimum((places - centre).remainder(1.0), (centre - places).remainder(1.0))
    # Two thirds of a normal lie within a width of its mode.
    within = away < width
    assert found[within].mean() * within.double().mean() == pytest.approx(0.6827 * (1 - OPPOSITE), abs=0.02)
    opposite = away > 0.25
    assert float((found * opposite).mean()) == pytest.approx(OPPOSITE, rel=0.15)
    assert float((found * (away > 0.5 - width)).mean()) == pytest.approx(0.6827 * OPPOSITE, rel=0.25)
    # No part of the turn is left without a density to find it with.
    assert found.min() > 1e-5


@pytest.mark.parametrize(("centre", "width"), TURNS)
def test_a_narrow_turn_has_no_seam(centre: float, width: float) -> None:
    step = 1e-6
    places = torch.tensor([0.0, step, 1.0 - step, 1.0], dtype=torch.float64)
    low, after, before, high = turn_density(centre, width, places).log().tolist()
    assert low == pytest.approx(high, abs=1e-9)
    assert math.isclose(after, before, abs_tol=1e-2)
