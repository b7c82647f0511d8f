"""Laws of the splines, over ordinary and extreme parameters."""

import math

import pytest
import torch
import zuko
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from boltzport.flows.spline import MIN_BIN, MIN_SLOPE, spline

BINS = 8


def random_parameters(
    dimensions: int,
    batch: int,
    *,
    scale: float,
    seed: int,
    intervals: int | None = None,
    dtype: torch.dtype = torch.float64,
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    raw = scale * torch.randn(3 * BINS, dimensions, batch, generator=generator, dtype=torch.float64)
    last = scale * torch.randn(
        dimensions if intervals is None else intervals, batch, generator=generator, dtype=torch.float64
    )
    return raw.to(dtype), last.to(dtype)


def knots(raw: Tensor, *, of: str) -> Tensor:
    part = raw[:BINS] if of == "widths" else raw[BINS : 2 * BINS]
    sizes = MIN_BIN + (1 - BINS * MIN_BIN) * part.softmax(0)
    return torch.cat([torch.zeros_like(sizes[:1]), sizes.cumsum(0)])


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_agrees_with_zuko(scale: float) -> None:
    """Zuko's spline on [-1, 1], with our bin sizes and slopes put into its constructor's place."""
    raw, last = random_parameters(3, 50, scale=scale, seed=1)
    points = torch.rand(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    oracle = zuko.transforms.MonotonicRQSTransform(
        torch.zeros(3, 50, BINS), torch.zeros(3, 50, BINS), torch.zeros(3, 50, BINS - 1)
    )
    softplus = torch.nn.functional.softplus(torch.cat([raw[2 * BINS :], last[None]]) + math.log(math.e - 1))
    oracle.horizontal = knots(raw, of="widths").movedim(0, -1)
    oracle.vertical = knots(raw, of="heights").movedim(0, -1)
    oracle.derivatives = (MIN_SLOPE + (1 - MIN_SLOPE) * softplus).movedim(0, -1)
    values, log_slopes = oracle.call_and_ladj(points)
    found = spline(points, raw, last, inverse=False)
    torch.testing.assert_close(found.values, values, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.log_slopes, log_slopes, rtol=0, atol=1e-10)


@pytest.mark.parametrize("inverse", [False, True])
def test_log_slope_is_that_of_autograd(inverse: bool) -> None:
    raw, last = random_parameters(4, 200, scale=1.0, seed=3, intervals=2)
    points = torch.rand(4, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).requires_grad_()
    found = spline(points, raw, last, inverse=inverse)
    (slopes,) = torch.autograd.grad(found.values.sum(), points)
    torch.testing.assert_close(found.log_slopes, slopes.log(), rtol=0, atol=1e-9)
    # Against differences too, since the gradient is our own.
    with torch.no_grad():
        ahead, behind = (spline(points + step, raw, last, inverse=inverse).values for step in (1e-6, -1e-6))
        torch.testing.assert_close(found.log_slopes.exp(), (ahead - behind) / 2e-6, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_those_of_the_values(inverse: bool) -> None:
    raw, last = random_parameters(3, 4, scale=2.0, seed=5, intervals=2)
    points = torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    arguments = tuple(part.requires_grad_() for part in (points, raw, last))
    assert torch.autograd.gradcheck(lambda *parts: tuple(spline(*parts, inverse=inverse)), arguments)


def test_zero_parameters_are_the_identity() -> None:
    points = torch.linspace(0, 1, 101, dtype=torch.float64).expand(2, -1)
    zeros = torch.zeros(24, 2, 101, dtype=torch.float64)
    found = spline(points, zeros, zeros[0, :1], inverse=False)
    torch.testing.assert_close(found.values, points)
    assert found.log_slopes.abs().max() < 1e-12


def test_a_circle_is_smooth_where_its_ends_meet() -> None:
    raw, last = random_parameters(2, 1, scale=2.0, seed=7, intervals=1)
    ends = torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64)
    slopes = spline(ends, raw.expand(-1, -1, 2), last.expand(-1, 2), inverse=False).log_slopes
    assert slopes[1, 0] == pytest.approx(slopes[1, 1].item(), abs=1e-9)
    assert abs(slopes[0, 0] - slopes[0, 1]) > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inverse", [False, True])
def test_knots_ends_and_what_lies_outside(inverse: bool, dtype: torch.dtype) -> None:
    raw, last = random_parameters(1, 1, scale=2.0, seed=8)
    corners = knots(raw, of="heights" if inverse else "widths")[:, 0, 0]
    below, above = torch.tensor([-1e9, -1.0, -1e-9]), torch.tensor([1 + 1e-6, 2.0, 1e9])
    points = torch.cat([below, corners, above]).to(dtype)[None].requires_grad_()
    n = points.shape[1]
    raw, last = raw.to(dtype).expand(-1, -1, n).clone().requires_grad_(), last.to(dtype).expand(-1, n)
    found = spline(points, raw, last, inverse=inverse)
    found.values.sum().backward()
    images = knots(raw.detach(), of="widths" if inverse else "heights")[:, 0, 0]
    tight = 1e-5 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(found.values[0, 3:12], images.to(dtype), rtol=0, atol=tight)
    assert (found.values[0, :3] == 0).all()
    assert (found.values[0, 12:] == 1).all()
    assert points.grad is not None
    assert raw.grad is not None
    assert (points.grad[0, :3] == 0).all()
    assert (points.grad[0, 12:] == 0).all()
    assert torch.isfinite(points.grad).all()
    assert torch.isfinite(raw.grad).all()


finite = st.floats(min_value=-(2.0**100), max_value=2.0**100, width=32)


@given(
    st.lists(finite, min_size=25, max_size=25),
    st.lists(st.floats(0, 1, width=32), min_size=1, max_size=8),
    st.sampled_from([torch.float32, torch.float64]),
    st.booleans(),
)
def test_extreme_parameters(raw_values: list[float], inputs: list[float], dtype: torch.dtype, inverse: bool) -> None:
    points = torch.tensor([inputs], dtype=dtype, requires_grad=True)
    rows = torch.tensor(raw_values, dtype=dtype)[:, None, None].expand(-1, 1, len(inputs))
    raw, last = rows[:24].clone().requires_grad_(), rows[24].clone().requires_grad_()
    found = spline(points, raw, last, inverse=inverse)
    (found.values.sum() + found.log_slopes.sum()).backward()
    for tensor in (found.values, found.log_slopes, points.grad, raw.grad, last.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all()
    assert ((found.values >= 0) & (found.values <= 1)).all()


moderate = st.floats(min_value=-8.0, max_value=8.0, width=32)


@given(st.lists(moderate, min_size=25, max_size=25), st.booleans())
def test_monotone_and_inverse_of_inverse(raw_values: list[float], inverse: bool) -> None:
    points = torch.linspace(0, 1, 401, dtype=torch.float64)[None]
    rows = torch.tensor(raw_values, dtype=torch.float64)[:, None, None].expand(-1, 1, 401)
    there = spline(points, rows[:24], rows[24], inverse=inverse)
    back = spline(there.values, rows[:24], rows[24], inverse=not inverse)
    assert (there.values.diff() >= 0).all()
    assert there.values[0, 0] == 0
    assert there.values[0, -1].item() == pytest.approx(1.0, abs=1e-12)
    # Where the function is nearly flat, rounding of its value is all that is known of the place.
    allowed = 1e-12 + 4e-15 * (-there.log_slopes).exp()
    assert ((back.values - points).abs() <= allowed).all()


def test_report_a_discriminant_that_rounds_below_zero() -> None:
    """Reports nflows 87 and 71: where b^2 = 4ac up to rounding, sampling in float32 raised an assertion."""
    raw, last = random_parameters(64, 512, scale=1e-4, seed=9, dtype=torch.float32)
    points = (torch.randint(0, BINS + 1, (64, 512), generator=torch.Generator().manual_seed(10)) / BINS).float()
    found = spline(points, raw, last, inverse=True)
    assert torch.isfinite(found.values).all()
    torch.testing.assert_close(found.values, points, rtol=0, atol=1e-3)
    # The corner itself: a bin whose quadratic degenerates, with steep ends.
    raw, last = random_parameters(64, 512, scale=6.0, seed=10, dtype=torch.float32)
    found = spline(torch.rand(64, 512, generator=torch.Generator().manual_seed(11)), raw, last, inverse=True)
    assert torch.isfinite(found.values).all()
    assert torch.isfinite(found.log_slopes).all()


def test_report_an_input_just_above_one() -> None:
    """As in nflows, where an input above the domain by an ulp raised, and in pyro 3139, where it gave NaN."""
    raw, last = random_parameters(1, 2, scale=1.0, seed=11, dtype=torch.float32)
    points = torch.tensor([[1.0, math.nextafter(1.0, 2.0) + 1e-7]], dtype=torch.float32)
    for inverse in (False, True):
        found = spline(points, raw, last, inverse=inverse)
        assert (found.values == 1).all()
        assert torch.isfinite(found.log_slopes).all()


@pytest.mark.parametrize("inverse", [False, True])
def test_report_inputs_outside_poison_no_gradient(inverse: bool) -> None:
    """Reports flowjax 239 and bayesflow 721: one point outside made the gradient of the whole batch NaN."""
    raw, last = (part.requires_grad_() for part in random_parameters(1, 4, scale=2.0, seed=13, dtype=torch.float32))
    points = torch.tensor([[0.3, -4.0, 7.0, 0.9]], requires_grad=True)
    found = spline(points, raw, last, inverse=inverse)
    (found.values.sum() + found.log_slopes.sum()).backward()
    for part in (points, raw, last):
        assert part.grad is not None
        assert torch.isfinite(part.grad).all()
    assert points.grad is not None
    assert points.grad[0, 1:3].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("inverse", [False, True])
def test_report_all_inputs_outside_or_none_at_all(inverse: bool) -> None:
    """Report nflows 23: a batch entirely outside the domain crashed; so did an empty one."""
    raw, last = random_parameters(2, 3, scale=1.0, seed=14)
    assert (spline(torch.full((2, 3), 5.0, dtype=torch.float64), raw, last, inverse=inverse).values == 1).all()
    empty = spline(torch.zeros(2, 0, dtype=torch.float64), raw[..., :0], last[..., :0], inverse=inverse)
    assert empty.values.shape == (2, 0)


def test_report_end_slopes_are_learned() -> None:
    """Report flowjax 134: the density at the ends was tied to that of the base."""
    raw, last = (part.expand(*part.shape[:-1], 2) for part in random_parameters(1, 1, scale=2.0, seed=15))
    slopes = spline(torch.tensor([[0.0, 1.0]], dtype=torch.float64), raw, last, inverse=False).log_slopes
    assert slopes.abs().min() > 0.05


def test_nan_stays_nan() -> None:
    raw, last = random_parameters(1, 3, scale=1.0, seed=12)
    points = torch.tensor([[0.2, math.nan, 0.7]], dtype=torch.float64)
    values = spline(points, raw, last, inverse=False).values
    assert values.isnan().tolist() == [[False, True, False]]
