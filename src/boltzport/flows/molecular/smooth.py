"""A smooth transform of the line with four parameters, value and log-derivative together.

    z = sinh(d asinh((x - m) / s) - e),        s = exp(scale), d = exp(tail)

maps a skewed density with light or heavy tails to a normal one: the sinh-arcsinh transform (Jones and Pewsey 2009) of
a shifted and scaled variable. Scale, skew and tail are bounded, so that it cannot overflow. With zero raw parameters it
is the identity.

It is elementwise, with a handwritten gradient, for the same reasons as the spline.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.compiling import Compiled

PARAMETERS = 4
"""Shift, scale, skew and tail."""
MAX_SCALE = 2.0
"""Largest log of the scale."""
MAX_SKEW = 2.0
"""Largest skew e."""
MAX_TAIL = 1.0
"""Largest log of the tail's exponent d."""

Points = Float[Tensor, "dimensions batch"]


class Smoothed(NamedTuple):
    """Values of the transform and its log derivatives."""

    values: Points
    log_slopes: Points


class SmoothGradients(NamedTuple):
    """Gradients with respect to the inputs and the raw parameters."""

    inputs: Points
    raw: Float[Tensor, "parameters dimensions batch"]


def smooth(
    inputs: Points, raw: Float[Tensor, "parameters dimensions batch"], *, inverse: bool, compiled: bool = False
) -> Smoothed:
    """Evaluate the transform, or its inverse; differentiable once.

    Args:
        inputs: Points.
        raw: Shift, scale, skew and tail, unbounded, each for every dimension.
        inverse: Whether to evaluate the inverse function.
        compiled: Whether to compile the kernels at their first use.

    Returns:
        Values and log derivatives of the evaluated function.
    """
    values, log_slopes = _Smooth.apply(inputs, raw, inverse, compiled)  # type: ignore[no-untyped-call]
    return Smoothed(values, log_slopes)


def pull_back(
    inputs: Points, raw: Float[Tensor, "parameters dimensions batch"], for_values: Points, *, compiled: bool = False
) -> SmoothGradients:
    """Gradients of the transform, given those of the values; the log derivatives have gradient one.

    Args:
        inputs: Points.
        raw: Their raw parameters.
        for_values: Gradients with respect to the values.
        compiled: Whether to compile the kernel at its first use.
    """
    flat = (inputs.reshape(-1), raw.reshape(len(raw), -1), for_values.reshape(-1), inputs.new_ones(inputs.numel()))
    found = SMOOTH_GRADIENTS(*flat) if compiled else smooth_gradients(*flat)
    return SmoothGradients(found.inputs.view(inputs.shape), found.raw.view(raw.shape))


class _Smooth(torch.autograd.Function):
    """Connects the kernels, which see one long dimension, to autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        raw: Tensor,
        inverse: bool,  # noqa: FBT001 (autograd passes arguments by position)
        compiled: bool,  # noqa: FBT001
    ) -> tuple[Tensor, Tensor]:
        flat = (inputs.detach().reshape(-1), raw.detach().reshape(len(raw), -1))
        if compiled:
            if raw.requires_grad:
                (SMOOTH_INVERSE_GRADIENTS if inverse else SMOOTH_GRADIENTS).start(*flat, flat[0], flat[0])
            values, log_slopes = (SMOOTH_INVERSE if inverse else SMOOTH)(*flat)
        else:
            values, log_slopes = (smooth_inverse if inverse else smooth_forward)(*flat)
        ctx.save_for_backward(*flat, values)
        ctx.shape, ctx.inverse, ctx.compiled = inputs.shape, inverse, compiled
        return values.view(inputs.shape), log_slopes.view(inputs.shape)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, raw, values = ctx.saved_tensors
        arguments = (values if ctx.inverse else inputs, raw, *(part.detach().reshape(-1) for part in gradients))
        if ctx.compiled:
            found = (SMOOTH_INVERSE_GRADIENTS if ctx.inverse else SMOOTH_GRADIENTS)(*arguments)
        else:
            found = (smooth_inverse_gradients if ctx.inverse else smooth_gradients)(*arguments)
        return found.inputs.view(ctx.shape), found.raw.view(len(raw), *ctx.shape), None, None


def smooth_forward(inputs: Tensor, raw: Tensor) -> Smoothed:
    """Transform data to base: (n,) and (4, n) to (n,)."""
    parts = _parts(inputs, raw)
    return Smoothed(parts.z, parts.log_slope)


def smooth_inverse(inputs: Tensor, raw: Tensor) -> Smoothed:
    """Transform base to data."""
    scale, skew, tail = _bounded(raw)
    values = raw[0] + scale.exp() * torch.sinh((_asinh(inputs) + skew) * (-tail).exp())
    return Smoothed(values, -_parts(values, raw).log_slope)


def smooth_gradients(inputs: Tensor, raw: Tensor, for_values: Tensor, for_logs: Tensor) -> SmoothGradients:
    """Gradients of `smooth_forward` at its inputs."""
    return _pull_back(_parts(inputs, raw), raw, for_values, for_logs)


def smooth_inverse_gradients(values: Tensor, raw: Tensor, for_values: Tensor, for_logs: Tensor) -> SmoothGradients:
    """Gradients of `smooth_inverse` at its values, by the inverse function theorem.

    With x = f^-1(z) and l = -log f'(x): dx = (dz - df) / f' and dl = -d log f', where df and d log f' on the right are
    taken at fixed x for the parameters.
    """
    parts = _parts(values, raw)
    zero = torch.zeros_like(values)
    curvature = _pull_back(parts, raw, zero, zero + 1.0).inputs
    for_inputs = (for_values - for_logs * curvature) * (-parts.log_slope).exp()
    return SmoothGradients(for_inputs, _pull_back(parts, raw, -for_inputs, -for_logs).raw)


SMOOTH = Compiled(smooth_forward, Smoothed, name="SMOOTH")
SMOOTH_INVERSE = Compiled(smooth_inverse, Smoothed, name="SMOOTH_INVERSE")
SMOOTH_GRADIENTS = Compiled(smooth_gradients, SmoothGradients, name="SMOOTH_GRADIENTS")
SMOOTH_INVERSE_GRADIENTS = Compiled(smooth_inverse_gradients, SmoothGradients, name="SMOOTH_INVERSE_GRADIENTS")


class _Parts(NamedTuple):
    """Common parts of value and derivative."""

    v: Tensor
    arc: Tensor
    z: Tensor
    log_slope: Tensor
    shrink: Tensor
    power: Tensor


def _parts(inputs: Tensor, raw: Tensor) -> _Parts:
    scale, skew, tail = _bounded(raw)
    shrink, power = (-scale).exp(), tail.exp()
    v = (inputs - raw[0]) * shrink
    arc = _asinh(v)
    z = torch.sinh(power * arc - skew)
    log_slope = tail + 0.5 * torch.log1p(z * z) - 0.5 * torch.log1p(v * v) - scale
    return _Parts(v, arc, z, log_slope, shrink, power)


def _pull_back(parts: _Parts, raw: Tensor, for_values: Tensor, for_logs: Tensor) -> SmoothGradients:
    v, arc, z, _, shrink, power = parts
    cosh, root = torch.sqrt(1.0 + z * z), torch.rsqrt(1.0 + v * v)
    for_w = for_values * cosh + for_logs * z / cosh
    for_v = for_w * power * root - for_logs * v * root * root
    for_inputs = for_v * shrink
    bend = _bends(raw)
    for_raw = torch.stack(
        [
            -for_inputs,
            (-for_v * v - for_logs) * bend[0],
            -for_w * bend[1],
            (for_w * power * arc + for_logs) * bend[2],
        ]
    )
    return SmoothGradients(for_inputs, for_raw)


def _bounded(raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log of the scale, skew, and log of the tail's exponent."""
    return (
        MAX_SCALE * torch.tanh(raw[1] * (1.0 / MAX_SCALE)),
        MAX_SKEW * torch.tanh(raw[2] * (1.0 / MAX_SKEW)),
        MAX_TAIL * torch.tanh(raw[3] * (1.0 / MAX_TAIL)),
    )


def _bends(raw: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Derivatives of the bounded parameters with respect to the raw ones."""
    limits = (MAX_SCALE, MAX_SKEW, MAX_TAIL)
    tanh = [torch.tanh(raw[i + 1] * (1.0 / limit)) for i, limit in enumerate(limits)]
    return 1.0 - tanh[0] * tanh[0], 1.0 - tanh[1] * tanh[1], 1.0 - tanh[2] * tanh[2]


def _asinh(value: Tensor) -> Tensor:
    """Inverse hyperbolic sine without cancellation for small and negative values; torch's is not vectorised."""
    size = value.abs()
    # log(size + root) with root = sqrt(1 + size^2): root - 1 = size^2 / (1 + root).
    return torch.sign(value) * torch.log1p(size + size * size / (1.0 + torch.sqrt(1.0 + size * size)))
