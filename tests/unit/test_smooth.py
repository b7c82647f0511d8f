"""Laws of the smooth transform of the line, over ordinary and extreme parameters."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from boltzport.flows.molecular.smooth import MAX_SCALE, MAX_SKEW, MAX_TAIL, PARAMETERS, smooth

SHAPE = (3, 50)


def random_case(*, scale: float, seed: int, shape: tuple[int, int] = SHAPE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    points = 2.0 * torch.randn(shape, generator=generator, dtype=torch.float64)
    return points, scale * torch.randn(PARAMETERS, *shape, generator=generator, dtype=torch.float64)


def plain(inputs: Tensor, raw: Tensor) -> Tensor:
    """The sinh-arcsinh transform as the paper writes it, with parameters bounded smoothly."""
    shift = raw[0]
    scale, skew, tail = (
        limit * torch.tanh(raw[i + 1] / limit) for i, limit in enumerate([MAX_SCALE, MAX_SKEW, MAX_TAIL])
    )
    return torch.sinh(tail.exp() * torch.asinh((inputs - shift) / scale.exp()) - skew)


@pytest.mark.parametrize("scale", [0.1, 1.0, 4.0])
def test_value_and_slope_are_those_of_the_plain_formula(scale: float) -> None:
    points, raw = random_case(scale=scale, seed=1)
    points.requires_grad_()
    expected = plain(points, raw)
    (slopes,) = torch.autograd.grad(expected.sum(), points)
    found = smooth(points, raw, inverse=False)
    torch.testing.assert_close(found.values, expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(found.log_slopes, slopes.log(), rtol=0, atol=1e-11)
    assert found.log_slopes.std() > 0.1 * scale


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_round_trip(first: bool, scale: float) -> None:
    points, raw = random_case(scale=scale, seed=2)
    there = smooth(points, raw, inverse=first)
    back = smooth(there.values, raw, inverse=not first)
    torch.testing.assert_close(back.values, points, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(back.log_slopes, -there.log_slopes, rtol=0, atol=1e-9)
    assert (there.values - points).abs().max() > 1


@pytest.mark.parametrize("inverse", [False, True])
def test_gradients_are_those_of_the_values(inverse: bool) -> None:
    points, raw = random_case(scale=0.8, seed=3, shape=(2, 4))
    arguments = (points.requires_grad_(), raw.requires_grad_())
    assert torch.autograd.gradcheck(lambda *parts: tuple(smooth(*parts, inverse=inverse)), arguments)


def test_gradients_are_those_of_the_plain_formula() -> None:
    """Of value and log-slope at once, which a sign in either would spoil."""
    points, raw = random_case(scale=1.5, seed=4)
    points, raw = points.requires_grad_(), raw.requires_grad_()
    expected = plain(points, raw)
    (slopes,) = torch.autograd.grad(expected.sum(), points, create_graph=True)
    wanted = torch.autograd.grad((expected.cos() + 0.7 * slopes.log()).sum(), (points, raw))
    found = smooth(points, raw, inverse=False)
    gradients = torch.autograd.grad((found.values.cos() + 0.7 * found.log_slopes).sum(), (points, raw))
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("inverse", [False, True])
def test_zero_parameters_are_the_identity(inverse: bool) -> None:
    points = torch.linspace(-50, 50, 101, dtype=torch.float64).expand(2, -1)
    found = smooth(points, torch.zeros(PARAMETERS, 2, 101, dtype=torch.float64), inverse=inverse)
    torch.testing.assert_close(found.values, points, rtol=1e-13, atol=1e-13)
    assert found.log_slopes.abs().max() < 1e-12


def test_each_parameter_does_what_its_name_says() -> None:
    """Seen from the base: a shift moves the points, a scale spreads them, a skew tilts them, a tail lengthens both."""
    base = torch.tensor([[-2.0, 0.0, 2.0]], dtype=torch.float64)
    moved = []
    for parameter in range(PARAMETERS):
        raw = torch.zeros(PARAMETERS, 1, 3, dtype=torch.float64)
        raw[parameter] = -0.5 if parameter == PARAMETERS - 1 else 0.5
        moved.append(smooth(base, raw, inverse=True).values[0].tolist())
    shifted, scaled, skewed, tailed = moved
    assert shifted == pytest.approx([-1.5, 0.5, 2.5])
    factor = math.exp(MAX_SCALE * math.tanh(0.5 / MAX_SCALE))
    assert scaled == pytest.approx([-2 * factor, 0.0, 2 * factor])
    assert skewed[2] - skewed[1] > 1.3 * (skewed[1] - skewed[0])
    assert tailed[2] == pytest.approx(-tailed[0])
    assert tailed[2] > 2 * 1.3


@pytest.mark.parametrize("inverse", [False, True])
def test_extreme_parameters_and_inputs_stay_finite_in_float32(inverse: bool) -> None:
    values = torch.tensor([-1e3, -30.0, 0.0, 30.0, 1e3])
    inputs = torch.tensor([-1e3, -1.0, 0.0, 1e-30, 1.0, 1e3])
    grid = torch.cartesian_prod(inputs, *[values] * PARAMETERS).T.contiguous()
    points, raw = grid[:1].clone().requires_grad_(), grid[1:, None].clone().requires_grad_()
    found = smooth(points, raw, inverse=inverse)
    (found.values.sum() + found.log_slopes.sum()).backward()
    for tensor in (found.values, found.log_slopes, points.grad, raw.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize("inverse", [False, True])
def test_float32_is_float64_rounded(inverse: bool) -> None:
    """Also for small inputs, where an arcsinh by its textbook formula cancels."""
    points, raw = random_case(scale=1.0, seed=5)
    points[0] *= 1e-4
    raw[0, 0], raw[2, 0] = 0.0, 0.0
    exact = smooth(points.float().double(), raw.float().double(), inverse=inverse)
    single = smooth(points.float(), raw.float(), inverse=inverse)
    torch.testing.assert_close(single.values.double(), exact.values, rtol=1e-4, atol=1e-9)
    torch.testing.assert_close(single.log_slopes.double(), exact.log_slopes, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_compiled_gives_the_same() -> None:
    """In a process of its own: the type checker of the test run does not go through the compiler."""
    script = """
import torch
from boltzport.flows.molecular.smooth import pull_back, smooth
results = []
for compiled in (True, False):
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(3, 41, generator=generator, dtype=torch.float64).requires_grad_()
    raw = torch.randn(4, 3, 41, generator=generator, dtype=torch.float64).requires_grad_()
    parts = []
    for inverse in (False, True):
        found = smooth(points, raw, inverse=inverse, compiled=compiled)
        loss = found.values.cos().sum() + found.log_slopes.sum()
        parts += [*found, *torch.autograd.grad(loss, (points, raw))]
    held, weights = points.detach(), points.detach().sin()
    found = smooth(points, raw, inverse=False, compiled=False)
    asked = torch.autograd.grad((weights * found.values).sum() + found.log_slopes.sum(), (points, raw))
    pulled = pull_back(held, raw.detach(), weights, compiled=compiled)
    for one, other in zip(pulled, asked):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    results.append(parts)
for fast, plain in zip(*results):
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr
    assert "uncompiled" not in done.stderr
