"""Splines with many small bins for few coordinates: the function of `flows.spline`, with the bins as a dimension.

A compiler would need minutes for two dozen unrolled bins. A few torsions are cheap compared with their networks, so
here the bins are a dimension of the tensors, and the right bin is found by an index.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flows.spline import Bin, Transformed, pull_back, root_within, within

MIN_BIN = 1e-4
"""Smallest width and height of a bin, which limits how low the density can get."""

Points = Float[Tensor, "dimensions batch"]


def fine_spline(
    inputs: Points,
    raw: Float[Tensor, "parameters dimensions batch"],
    last: Float[Tensor, "intervals batch"],
    *,
    inverse: bool,
) -> Transformed:
    """Evaluate splines, or their inverses, at inputs in [0, 1]; differentiable once.

    Args:
        inputs: Points, intervals first, then circles; points outside are clamped to the nearer end.
        raw: K widths, K heights and K slopes at the left ends of the bins, each for every dimension.
        last: Slope at the right end, 1, of the intervals; on a circle it equals the slope at 0.
        inverse: Whether to evaluate the inverse functions.

    Returns:
        Values in [0, 1], and the log derivatives of the evaluated functions.
    """
    values, log_slopes = _FineSpline.apply(inputs, raw, last, inverse)  # type: ignore[no-untyped-call]
    return Transformed(values, log_slopes)


class _FineSpline(torch.autograd.Function):
    """Value and gradient; the gradient with respect to raw parameters is written by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        raw: Tensor,
        last: Tensor,
        inverse: bool,  # noqa: FBT001 (autograd passes arguments by position)
    ) -> tuple[Tensor, Tensor]:
        cut = inputs.clamp(0.0, 1.0)
        shares = _shares(raw)
        edges = _edges(shares)
        slopes = _slopes(raw, last)
        index = _index(cut, edges[int(inverse)])
        found = _bin(edges, slopes, index)
        if inverse:
            values = found.x + found.width * root_within(cut, found)
            reached, log_slopes = within(values, found)
            # One step of Newton's method recovers the last digits.
            values = torch.clamp(values - (reached - cut) * (-log_slopes).exp(), found.x, found.x + found.width)
            log_slopes = -within(values, found).log_slopes
        else:
            values, log_slopes = within(cut, found)
        values = values.clamp(0.0, 1.0)
        ctx.save_for_backward(inputs, values, shares, index, *found)
        ctx.inverse, ctx.intervals = inverse, len(last)
        return values, log_slopes

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, values, shares, index, *parts = ctx.saved_tensors
        for_values, for_logs = gradients
        found = Bin(*parts)
        if ctx.inverse:
            # With x = f^-1(y) and l = -log f'(x): dx = (dy - df) / f' and dl = -d log f', at fixed x.
            _, log_slopes = within(values, found)
            curvature, _ = pull_back(values, found, torch.zeros_like(values), torch.ones_like(values))
            for_inputs = (for_values - for_logs * curvature) * (-log_slopes).exp()
            _, for_bin = pull_back(values, found, -for_inputs, -for_logs)
        else:
            for_inputs, for_bin = pull_back(inputs.clamp(0.0, 1.0), found, for_values, for_logs)
        for_raw, for_last = _spread(shares, index, for_bin, ctx.intervals)
        outside = (inputs < 0.0) | (inputs > 1.0)
        return for_inputs.masked_fill(outside, 0.0), for_raw, for_last, None


def _shares(raw: Tensor) -> Tensor:
    """Softmax over the bins, of widths and heights: (2, bins, dimensions, batch)."""
    bins = len(raw) // 3
    return torch.softmax(raw[: 2 * bins].view(2, bins, *raw.shape[1:]), 1)


def _edges(shares: Tensor) -> Tensor:
    """Knots without the first, which is 0: (2, bins, dimensions, batch); the last one is 1 exactly."""
    bins = shares.shape[1]
    edges = (MIN_BIN + (1.0 - bins * MIN_BIN) * shares).cumsum(1)
    edges[:, -1] = 1.0
    return edges


def _slopes(raw: Tensor, last: Tensor) -> Tensor:
    """Raw slopes at all knots; a circle has the same slope at its two ends."""
    left = raw[2 * len(raw) // 3 :]
    return torch.cat([left, torch.cat([last, left[0, len(last) :]])[None]])


def _index(inputs: Tensor, edges: Tensor) -> Tensor:
    """Bin of each input, (1, dimensions, batch)."""
    return (inputs >= edges[:-1]).sum(0, keepdim=True)


def _bin(edges: Tensor, slopes: Tensor, index: Tensor) -> Bin:
    both = index.expand(2, *index.shape)
    upper = edges.gather(1, both)[:, 0]
    lower = edges.gather(1, (both - 1).clamp_min(0))[:, 0].masked_fill(index == 0, 0.0)
    size = upper - lower
    ends = (slopes.gather(0, index + k)[0] for k in (0, 1))
    return Bin(lower[0], lower[1], size[0], size[1], *ends)


def _spread(shares: Tensor, index: Tensor, gradient: Bin, intervals: int) -> tuple[Tensor, Tensor]:
    """Gradients with respect to raw parameters and last slopes from those with respect to the bin of the inputs.

    The corner of a bin is the sum of the bins before it. So the bins before it have the gradient of the corner, the bin
    itself that of its size, and the bins after it none.
    """
    bins = shares.shape[1]
    number = torch.arange(bins, device=index.device)[:, None, None]
    here, before = number == index, number < index
    corner = torch.stack([gradient.x, gradient.y])[:, None]
    size = torch.stack([gradient.width, gradient.height])[:, None]
    each = torch.where(here, size, torch.where(before, corner, 0.0))
    sizes = (1.0 - bins * MIN_BIN) * shares * (each - (shares * each).sum(1, keepdim=True))
    slopes = shares.new_zeros(bins + 1, *shares.shape[2:])
    slopes.scatter_(0, index, gradient.left[None])
    slopes.scatter_(0, index + 1, gradient.right[None])
    # A circle has the same slope at its two ends.
    slopes[0, intervals:] += slopes[bins, intervals:]
    return torch.cat([sizes.flatten(0, 1), slopes[:bins]]), slopes[bins, :intervals]
