"""Monotone rational-quadratic splines of [0, 1] onto itself, with value and log derivative together.

Durkan et al. 2019 (arXiv 1906.04032), with circles after Rezende et al. 2020 (arXiv 2002.02428): on a circle the
two ends are one knot with one slope. A spline of K bins has K raw widths, K raw heights and K + 1 raw slopes
(K on a circle). With zero raw parameters it is the identity.

The bins are unrolled and the right one is selected by comparisons, never by an index. This gives a chain of
elementwise operations on tensors of one shape, which a compiler turns into a single loop. The gradient is handwritten
for the same reason: it recomputes the bin and writes each parameter's share once, so that only inputs and outputs go
through memory.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.compiling import Compiled

MIN_BIN = 1e-3
"""Smallest width and height of a bin."""
MIN_SLOPE = 1e-3
"""Smallest slope at a knot."""
MAX_RAW_SLOPE = 1e3
"""Largest raw slope; beyond it the slope is constant, so that squares stay finite in float32."""
_UNIT_SLOPE = 0.541324854612918
"""log(e - 1): the raw slope whose softplus is 1."""

Points = Float[Tensor, "dimensions batch"]


class Transformed(NamedTuple):
    """Values of splines and their log derivatives."""

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
        inputs: Points, intervals first, then circles; points outside are clamped to the nearer end.
        raw: K widths, K heights and K slopes at the left ends of the bins, each for every dimension.
        last: Slope at the right end, 1, of the intervals; on a circle it equals the slope at 0.
        inverse: Whether to evaluate the inverse functions.
        compiled: Whether to compile the kernels at their first use.

    Returns:
        Values in [0, 1], and the log derivatives of the evaluated functions.
    """
    values, log_slopes = _Spline.apply(inputs, raw, last, inverse, compiled)  # type: ignore[no-untyped-call]
    return Transformed(values, log_slopes)


class _Spline(torch.autograd.Function):
    """Connects the kernels, which see one long dimension, to autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        raw: Tensor,
        last: Tensor,
        inverse: bool,  # noqa: FBT001 (autograd passes arguments by position)
        compiled: bool,  # noqa: FBT001
    ) -> tuple[Tensor, Tensor]:
        shape, intervals = inputs.shape, len(last)
        ends = torch.cat([last, raw[2 * len(raw) // 3, intervals:]])
        flat = (inputs.detach().reshape(-1), raw.detach().reshape(len(raw), -1), ends.detach().reshape(-1))
        if compiled:
            if raw.requires_grad:
                # Both kernels will be needed, so two processes compile them at the same time.
                (INVERSE_GRADIENTS if inverse else FORWARD_GRADIENTS).start(*flat, flat[0], flat[0])
            values, log_slopes = (INVERSE if inverse else FORWARD)(*flat)
        else:
            values, log_slopes = (inverse_values if inverse else forward_values)(*flat)
        ctx.save_for_backward(*flat, values)
        ctx.shape, ctx.intervals, ctx.inverse, ctx.compiled = shape, intervals, inverse, compiled
        return values.view(shape), log_slopes.view(shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, raw, ends, values = ctx.saved_tensors
        arguments = (values if ctx.inverse else inputs, raw, ends, *(part.detach().reshape(-1) for part in gradients))
        if ctx.compiled:
            found = (INVERSE_GRADIENTS if ctx.inverse else FORWARD_GRADIENTS)(*arguments)
        else:
            found = (inverse_gradients if ctx.inverse else forward_gradients)(*arguments)
        for_inputs = found.inputs.masked_fill((inputs < 0.0) | (inputs > 1.0), 0.0).view(ctx.shape)
        for_raw, for_ends = found.raw.view(len(raw), *ctx.shape), found.last.view(ctx.shape)
        # A circle has the same slope at its two ends.
        for_raw[2 * len(raw) // 3, ctx.intervals :] += for_ends[ctx.intervals :]
        return for_inputs, for_raw, for_ends[: ctx.intervals], None, None


def forward_values(inputs: Tensor, raw: Tensor, ends: Tensor) -> Transformed:
    """Splines at points: (n,), (3K, n) and (n,) to (n,)."""
    inputs = inputs.clamp(0.0, 1.0)
    values, log_slopes = within(inputs, _find_bin(inputs, raw, ends, by_height=False))
    return Transformed(values.clamp(0.0, 1.0), log_slopes)


def inverse_values(inputs: Tensor, raw: Tensor, ends: Tensor) -> Transformed:
    """Inverse splines at points: the root of a quadratic, then one Newton step, which recovers the last digits."""
    inputs = inputs.clamp(0.0, 1.0)
    found = _find_bin(inputs, raw, ends, by_height=True)
    values = found.x + found.width * root_within(inputs, found)
    reached, log_slopes = within(values, found)
    values = torch.clamp(values - (reached - inputs) * (-log_slopes).exp(), found.x, found.x + found.width)
    _, log_slopes = within(values, found)
    return Transformed(values.clamp(0.0, 1.0), -log_slopes)


def forward_gradients(inputs: Tensor, raw: Tensor, ends: Tensor, for_values: Tensor, for_logs: Tensor) -> Gradients:
    """Gradients of `forward_values` at its inputs."""
    inputs = inputs.clamp(0.0, 1.0)
    found = _find_bin(inputs, raw, ends, by_height=False)
    for_inputs, for_bin = pull_back(inputs, found, for_values, for_logs)
    return _spread(inputs, raw, for_inputs, for_bin)


def inverse_gradients(values: Tensor, raw: Tensor, ends: Tensor, for_values: Tensor, for_logs: Tensor) -> Gradients:
    """Gradients of `inverse_values` at its values, by the inverse function theorem.

    With x = f^-1(y) and l = -log f'(x): dx = (dy - df) / f' and dl = -d log f', where df and d log f' on the right
    are taken at fixed x for the parameters. So the square root of the quadratic formula is never differentiated.
    """
    found = _find_bin(values, raw, ends, by_height=False)
    _, log_slopes = within(values, found)
    zero = torch.zeros_like(values)
    curvature, _ = pull_back(values, found, zero, zero + 1.0)
    for_inputs = (for_values - for_logs * curvature) * (-log_slopes).exp()
    _, for_bin = pull_back(values, found, -for_inputs, -for_logs)
    return _spread(values, raw, for_inputs, for_bin)


FORWARD = Compiled(forward_values, Transformed, name="FORWARD")
INVERSE = Compiled(inverse_values, Transformed, name="INVERSE")
FORWARD_GRADIENTS = Compiled(forward_gradients, Gradients, name="FORWARD_GRADIENTS")
INVERSE_GRADIENTS = Compiled(inverse_gradients, Gradients, name="INVERSE_GRADIENTS")


class _Parts(NamedTuple):
    """Common parts of value and derivative: position t in the bin, 1 - t, mean slope, end slopes, numerator etc."""

    place: Tensor
    rest: Tensor
    mean: Tensor
    left: Tensor
    right: Tensor
    above: Tensor
    below: Tensor
    slope: Tensor


def _parts(inputs: Tensor, found: Bin) -> _Parts:
    left, right = _slope(found.left), _slope(found.right)
    mean = found.height / found.width
    place = ((inputs - found.x) / found.width).clamp(0.0, 1.0)
    rest = 1.0 - place
    mixed = place * rest
    # In this form all terms are positive, so the sums cannot cancel.
    below = mean * (place * place + rest * rest) + (left + right) * mixed
    above = found.height * place * (mean * place + left * rest)
    slope = right * place * place + 2.0 * mean * mixed + left * rest * rest
    return _Parts(place, rest, mean, left, right, above, below, slope)


def within(inputs: Tensor, found: Bin) -> Transformed:
    """Function at a point of its bin (equations 4 and 5 of Durkan et al.)."""
    p = _parts(inputs, found)
    return Transformed(found.y + p.above / p.below, 2.0 * (p.mean / p.below).log() + p.slope.log())


def pull_back(inputs: Tensor, found: Bin, for_values: Tensor, for_logs: Tensor) -> tuple[Tensor, Bin]:
    """Gradients of `within` with respect to the input and to the bin: the chain rule, from the end to the start."""
    p = _parts(inputs, found)
    t, r, mixed = p.place, p.rest, p.place * p.rest
    inverse = 1.0 / p.below
    for_above = for_values * inverse
    for_below = -(for_values * p.above * inverse + 2.0 * for_logs) * inverse
    for_slope = for_logs / p.slope
    ramp = p.mean * t + p.left * r
    for_mean = 2.0 * (for_logs / p.mean + for_slope * mixed)
    for_mean = for_mean + for_above * found.height * t * t + for_below * (t * t + r * r)
    for_left = (for_above * found.height + for_below) * mixed + for_slope * r * r
    for_right = for_below * mixed + for_slope * t * t
    for_place = for_above * found.height * (ramp + t * (p.mean - p.left))
    for_place = for_place + for_below * (r - t) * (p.left + p.right - 2.0 * p.mean)
    for_place = for_place + 2.0 * for_slope * (p.right * t + p.mean * (r - t) - p.left * r)
    per_width = 1.0 / found.width
    for_inputs = for_place * per_width
    for_bin = Bin(
        x=-for_inputs,
        y=for_values,
        width=-(for_mean * p.mean + for_place * t) * per_width,
        height=for_above * t * ramp + for_mean * per_width,
        left=for_left * _slope_gradient(found.left),
        right=for_right * _slope_gradient(found.right),
    )
    return for_inputs, for_bin


def raw_slope(slope: Tensor) -> Tensor:
    """Raw parameter of a slope at a knot; slopes below the smallest are raised to it."""
    softplus = ((slope - MIN_SLOPE) / (1.0 - MIN_SLOPE)).clamp_min(1e-9)
    # log(exp(s) - 1), without overflow for large s.
    return softplus + torch.log(-torch.expm1(-softplus)) - _UNIT_SLOPE


def _slope(raw: Tensor) -> Tensor:
    shifted = raw.clamp(max=MAX_RAW_SLOPE) + _UNIT_SLOPE
    softplus = shifted.clamp_min(0.0) + torch.log1p((-shifted.abs()).exp())
    return MIN_SLOPE + (1.0 - MIN_SLOPE) * softplus


def _slope_gradient(raw: Tensor) -> Tensor:
    return torch.where(raw <= MAX_RAW_SLOPE, (1.0 - MIN_SLOPE) * torch.sigmoid(raw + _UNIT_SLOPE), 0.0)


def root_within(inputs: Tensor, found: Bin) -> Tensor:
    """Position within the bin whose value is the input: the root in [0, 1] of a quadratic."""
    left, right = _slope(found.left), _slope(found.right)
    mean = found.height / found.width
    excess = left + right - 2.0 * mean
    rise = (inputs - found.y).clamp_min(0.0)
    a = found.height * (mean - left) + rise * excess
    b = found.height * left - rise * excess
    c = -mean * rise
    # A zero discriminant may be rounded to a negative number.
    root = (b * b - 4.0 * a * c).clamp_min(0.0).sqrt()
    # Use the form of the root that adds numbers of the same sign; b < 0 implies a > 0.
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
        # The last bin ends at exactly 1, regardless of rounding in the sum.
        w, h = (1.0 - x, 1.0 - y) if k == bins - 1 else (width[k], height[k])
        this = Bin(x, y, w, h, slope[k], slope[k + 1])
        found = Bin(*(torch.where(beyond, new, old) for new, old in zip(this, found, strict=True)))
    return found


def _spread(inputs: Tensor, raw: Tensor, for_inputs: Tensor, gradient: Bin) -> Gradients:
    """Gradients with respect to all raw parameters from those with respect to the bin of the inputs.

    The corner of bin k is the sum of the bins before it. So the bins before it have the gradient of the corner, bin k
    that of its own size, and the bins after it none.
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
    # In the last bin the size is 1 minus the corner. The sizes add up to 1, so a gradient common to all bins has no
    # effect: adding the size's gradient to the last bin is the same as subtracting it from all the others.
    pairs = zip(here, passed, strict=True)
    each = [torch.where(this, of_size, torch.where(before, of_corner, 0.0)) for this, before in pairs]
    mean = shares[0] * each[0]
    for share, one in zip(shares[1:], each[1:], strict=True):
        mean = mean + share * one
    scale = 1.0 - len(shares) * MIN_BIN
    return [scale * share * (one - mean) for share, one in zip(shares, each, strict=True)]
