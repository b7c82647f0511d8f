"""Monotone rational-quadratic splines of [0, 1] onto itself, value and log-derivative together.

Durkan et al. 2019 (arXiv 1906.04032), with circles after Rezende et al. 2020 (arXiv 2002.02428): on a circle the
two ends are one knot with one slope. A spline of K bins has K raw widths, K raw heights and K + 1 raw slopes
(K on a circle). Zero raw parameters are the identity.

The bins are unrolled and the right one is chosen by comparisons, never by an index: what is left is a chain of
elementwise operations on tensors of one shape, which a compiler turns into a single loop. The gradient is written
by hand for the same reason: it recomputes the bin and writes each parameter's share once, so that nothing but
inputs and outputs goes through memory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.compiling import Compiled

MIN_BIN = 1e-3
"""Least width and height of a bin."""
MIN_SLOPE = 1e-3
"""Least slope at a knot."""
MAX_RAW_SLOPE = 1e3
"""Largest raw slope; beyond it the slope is constant, so that squares stay finite in float32."""
_UNIT_SLOPE = 0.541324854612918
"""log(e - 1): the raw slope whose softplus is 1."""

Points = Float[Tensor, "dimensions batch"]


class Transformed(NamedTuple):
    """Values of splines and the logs of their derivatives."""

    values: Points
    log_slopes: Points


class Gradients(NamedTuple):
    """Gradients with respect to the inputs, the raw parameters and the raw last slopes."""

    inputs: Points
    raw: Float[Tensor, "parameters dimensions batch"]
    last: Points


class Bin(NamedTuple):
    """The bin that an input lies in: corner, size, and raw slopes at its two ends."""

    x: Tensor
    y: Tensor
    width: Tensor
    height: Tensor
    left: Tensor
    right: Tensor


def spline(
    inputs: Points,
    raw: Float[Tensor, "parameters dimensions batch"],
    last: Float[Tensor, "intervals batch"],
    *,
    inverse: bool,
    compiled: bool = False,
) -> Transformed:
    """Evaluate splines, or their inverses, at inputs in [0, 1]; differentiable once.

    Args:
        inputs: Points, those of intervals first, then those of circles; what lies outside is moved to the nearer end.
        raw: K widths, K heights and K slopes at the left ends of the bins, each for every dimension.
        last: Slope at the right end, 1, for the intervals; a circle has the slope at 0 there.
        inverse: Evaluate the inverse functions.
        compiled: Compile the kernels at their first use.

    Returns:
        Values in [0, 1] and the logs of the derivatives of the functions evaluated.
    """
    values, log_slopes = _Spline.apply(inputs, raw, last, inverse, compiled)  # type: ignore[no-untyped-call]
    return Transformed(values, log_slopes)


class _Spline(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        raw: Tensor,
        last: Tensor,
        inverse: bool,  # noqa: FBT001 (autograd passes arguments by position)
        compiled: bool,  # noqa: FBT001
    ) -> tuple[Tensor, Tensor]:
        ends = torch.cat([last, raw[2 * len(raw) // 3, len(last) :]])
        values, log_slopes = _VALUES[inverse][compiled](inputs, raw, ends)
        ctx.save_for_backward(inputs, values, raw, ends)
        ctx.intervals, ctx.inverse, ctx.compiled = len(last), inverse, compiled
        return values, log_slopes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, values, raw, ends = ctx.saved_tensors
        kernel = _GRADIENTS[ctx.inverse][ctx.compiled]
        outside = (inputs < 0.0) | (inputs > 1.0)
        found = kernel(values if ctx.inverse else inputs, raw, ends, *(part.contiguous() for part in gradients))
        # A circle has one slope at its two ends.
        found.raw[2 * len(raw) // 3, ctx.intervals :] += found.last[ctx.intervals :]
        return found.inputs.masked_fill(outside, 0.0), found.raw, found.last[: ctx.intervals], None, None


def forward_values(inputs: Tensor, raw: Tensor, ends: Tensor) -> Transformed:
    """Splines at points."""
    inputs = inputs.clamp(0.0, 1.0)
    values, log_slopes = _within(inputs, *_find_bin(inputs, raw, ends, by_height=False))
    return Transformed(values.clamp(0.0, 1.0), log_slopes)


def inverse_values(inputs: Tensor, raw: Tensor, ends: Tensor) -> Transformed:
    """Inverse splines at points: the root of a quadratic, then a step of Newton's method to the last digits."""
    inputs = inputs.clamp(0.0, 1.0)
    found = _find_bin(inputs, raw, ends, by_height=True)
    values = found.x + found.width * _root(inputs, found)
    reached, log_slopes = _within(values, *found)
    values = torch.clamp(values - (reached - inputs) * (-log_slopes).exp(), found.x, found.x + found.width)
    _, log_slopes = _within(values, *found)
    return Transformed(values.clamp(0.0, 1.0), -log_slopes)


def forward_gradients(inputs: Tensor, raw: Tensor, ends: Tensor, for_values: Tensor, for_logs: Tensor) -> Gradients:
    """Gradients of `forward_values` at its inputs."""
    inputs = inputs.clamp(0.0, 1.0)
    found = _find_bin(inputs, raw, ends, by_height=False)
    pull_back = torch.func.vjp(_within, inputs, *found)[1]
    for_inputs, *for_bin = pull_back(Transformed(for_values, for_logs))
    return _spread(inputs, raw, for_inputs, Bin(*for_bin))


def inverse_gradients(values: Tensor, raw: Tensor, ends: Tensor, for_values: Tensor, for_logs: Tensor) -> Gradients:
    """Gradients of `inverse_values` at its values, by the inverse function theorem.

    With x = f^-1(y) and l = -log f'(x): dx = (dy - df) / f' and dl = -d log f', where df and d log f' on the right
    are taken at fixed x for the parameters. So the square root of the quadratic formula is never differentiated.
    """
    found = _find_bin(values, raw, ends, by_height=False)
    (_, log_slopes), pull_back = torch.func.vjp(_within, values, *found)[:2]
    zero = torch.zeros_like(values)
    curvature = pull_back(Transformed(zero, torch.ones_like(values)))[0]
    for_inputs = (for_values - for_logs * curvature) * (-log_slopes).exp()
    _, *for_bin = pull_back(Transformed(-for_inputs, -for_logs))
    return _spread(values, raw, for_inputs, Bin(*for_bin))


_Kernel = Callable[[Tensor, Tensor, Tensor], Transformed]
_Gradient = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Gradients]
# By direction (inverse or not), then by whether they are compiled.
_VALUES: dict[bool, dict[bool, _Kernel]] = {
    False: {False: forward_values, True: Compiled(forward_values, name="the spline")},
    True: {False: inverse_values, True: Compiled(inverse_values, name="the inverse spline")},
}
_GRADIENTS: dict[bool, dict[bool, _Gradient]] = {
    False: {False: forward_gradients, True: Compiled(forward_gradients, name="the spline's gradient")},
    True: {False: inverse_gradients, True: Compiled(inverse_gradients, name="the inverse spline's gradient")},
}


def _within(
    inputs: Tensor, x: Tensor, y: Tensor, width: Tensor, height: Tensor, left: Tensor, right: Tensor
) -> Transformed:
    """Function at a point of its bin (equations 4 and 5 of Durkan et al.)."""
    left, right = _slope(left), _slope(right)
    mean = height / width
    place = ((inputs - x) / width).clamp(0.0, 1.0)
    rest = 1.0 - place
    mixed = place * rest
    # All terms are positive: written so, the sums cannot cancel.
    below = mean * (place * place + rest * rest) + (left + right) * mixed
    above = height * place * (mean * place + left * rest)
    slope = right * place * place + 2.0 * mean * mixed + left * rest * rest
    return Transformed(y + above / below, 2.0 * (mean / below).log() + slope.log())


def _slope(raw: Tensor) -> Tensor:
    shifted = raw.clamp(max=MAX_RAW_SLOPE) + _UNIT_SLOPE
    softplus = shifted.clamp_min(0.0) + torch.log1p((-shifted.abs()).exp())
    return MIN_SLOPE + (1.0 - MIN_SLOPE) * softplus


def _root(inputs: Tensor, found: Bin) -> Tensor:
    """Place within the bin whose value is the input: the root in [0, 1] of a quadratic."""
    left, right = _slope(found.left), _slope(found.right)
    mean = found.height / found.width
    excess = left + right - 2.0 * mean
    rise = (inputs - found.y).clamp_min(0.0)
    a = found.height * (mean - left) + rise * excess
    b = found.height * left - rise * excess
    c = -mean * rise
    # A discriminant of zero may round below it.
    root = (b * b - 4.0 * a * c).clamp_min(0.0).sqrt()
    # Of the two forms of the root the one that adds numbers of one sign; b < 0 implies a > 0.
    positive = b >= 0.0
    q = b + torch.where(positive, root, -root)
    numerator, denominator = torch.where(positive, -2.0 * c, -q), torch.where(positive, q, 2.0 * a)
    return torch.where(denominator > 0.0, numerator / denominator.clamp_min(1e-30), 0.0).clamp(0.0, 1.0)


def _shares(raw: tuple[Tensor, ...]) -> list[Tensor]:
    """Softmax over the bins."""
    largest = raw[0]
    for size in raw[1:]:
        largest = torch.maximum(largest, size)
    shares = [(size - largest).exp() for size in raw]
    total = shares[0]
    for share in shares[1:]:
        total = total + share
    scale = 1.0 / total
    return [share * scale for share in shares]


def _sizes(shares: list[Tensor]) -> list[Tensor]:
    return [MIN_BIN + (1.0 - len(shares) * MIN_BIN) * share for share in shares]


def _find_bin(inputs: Tensor, raw: Tensor, ends: Tensor, *, by_height: bool) -> Bin:
    bins = len(raw) // 3
    rows = raw.unbind()
    width, height = _sizes(_shares(rows[:bins])), _sizes(_shares(rows[bins : 2 * bins]))
    slope = (*rows[2 * bins :], ends)
    x = y = torch.zeros_like(inputs)
    found = Bin(x, y, width[0], height[0], slope[0], slope[1])
    for k in range(1, bins):
        x, y = x + width[k - 1], y + height[k - 1]
        beyond = inputs >= (y if by_height else x)
        # The last bin ends at 1 exactly, whatever the rounding of the sum.
        w, h = (1.0 - x, 1.0 - y) if k == bins - 1 else (width[k], height[k])
        this = Bin(x, y, w, h, slope[k], slope[k + 1])
        found = Bin(*(torch.where(beyond, new, old) for new, old in zip(this, found, strict=True)))
    return found


def _spread(inputs: Tensor, raw: Tensor, for_inputs: Tensor, gradient: Bin) -> Gradients:
    """Gradients with respect to all raw parameters from those with respect to the bin of the inputs.

    The corner of bin k is the sum of the bins before it: each of these has the corner's gradient, bin k that of its
    own size, and the bins after it none.
    """
    bins = len(raw) // 3
    rows = raw.unbind()
    widths, heights = _shares(rows[:bins]), _shares(rows[bins : 2 * bins])
    sizes = _sizes(widths)
    zero = torch.zeros_like(inputs)
    x, reached = zero, [inputs >= 0.0]
    for size in sizes[:-1]:
        x = x + size
        reached.append(inputs >= x)
    passed = [*reached[1:], inputs > 2.0]
    here = [reached[k] & ~passed[k] for k in range(bins)]
    for_widths = _softmax_gradient(widths, here, passed, gradient.width, gradient.x)
    for_heights = _softmax_gradient(heights, here, passed, gradient.height, gradient.y)
    for_slopes = [torch.where(here[0], gradient.left, zero)]
    for k in range(1, bins):
        for_slopes.append(torch.where(here[k], gradient.left, torch.where(here[k - 1], gradient.right, zero)))
    for_last = torch.where(here[-1], gradient.right, zero)
    return Gradients(for_inputs, torch.stack([*for_widths, *for_heights, *for_slopes]), for_last)


def _softmax_gradient(
    shares: list[Tensor], here: list[Tensor], passed: list[Tensor], of_size: Tensor, of_corner: Tensor
) -> list[Tensor]:
    # In the last bin the size is 1 minus the corner. The sizes add up to 1, so that a gradient common to all bins
    # has no effect: giving the last bin the size's gradient is the same as taking it off all the others.
    pairs = zip(here, passed, strict=True)
    each = [torch.where(this, of_size, torch.where(before, of_corner, 0.0)) for this, before in pairs]
    mean = shares[0] * each[0]
    for share, one in zip(shares[1:], each[1:], strict=True):
        mean = mean + share * one
    scale = 1.0 - len(shares) * MIN_BIN
    return [scale * share * (one - mean) for share, one in zip(shares, each, strict=True)]
