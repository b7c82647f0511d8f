"""The same architecture with the splines of other libraries, for benchmarks only.

A coupling flow as their users build it: batch first, `nn.Linear` conditioners of the same widths, the same masks,
the library's own rational-quadratic spline. Only the speed matters, so base density and rotations are left out.
"""

import importlib.util
import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

from boltzport.flows.couplings.conditioner import Activation
from boltzport.flows.couplings.config import CouplingConfig

Kernel = Callable[[Tensor, Tensor, Tensor, Tensor, bool], tuple[Tensor, Tensor]]


class PeerFlow(nn.Module):
    """Couplings on intervals and circles with another library's spline.

    Args:
        intervals: Number of intervals.
        circles: Number of circles.
        config: Size of the flow.
        kernel: Spline as a function of inputs (batch, dimensions) and raw parameters (batch, dimensions, K or K + 1).
    """

    def __init__(self, intervals: int, circles: int, config: CouplingConfig, *, kernel: Kernel) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        total = intervals + circles
        self.intervals, self.kernel, self.bins = intervals, kernel, config.bins
        self.masks = []
        networks = []
        for _ in range(config.pairs):
            order = torch.randperm(total, generator=generator)
            halves = order[: total // 2].sort().values, order[total // 2 :].sort().values
            for transformed, fixed in (halves, halves[::-1]):
                self.masks.append((transformed, fixed))
                inputs = int((fixed < intervals).sum() + 2 * (fixed >= intervals).sum())
                networks.append(_network(inputs, (3 * config.bins + 1) * len(transformed), config))
        self.networks = nn.ModuleList(networks)

    def log_det(self, points: Tensor, *, inverse: bool = False) -> tuple[Tensor, Tensor]:
        """Transform points by all couplings, with the log-determinant."""
        total = torch.zeros(len(points))
        layers = list(zip(self.masks, self.networks, strict=True))
        for (transformed, fixed), network in reversed(layers) if inverse else layers:
            held = points[:, fixed]
            circular = fixed >= self.intervals
            angles = 2 * math.pi * held[:, circular]
            raw = network(torch.cat([held[:, ~circular], angles.cos(), angles.sin()], dim=1))
            raw = raw.view(len(points), len(transformed), 3 * self.bins + 1)
            widths, heights, slopes = torch.split_with_sizes(raw, [self.bins, self.bins, self.bins + 1], dim=-1)
            values, log_slopes = self.kernel(points[:, transformed], widths, heights, slopes, inverse)
            points = points.index_copy(1, transformed, values)
            total = total + log_slopes.sum(1)
        return points, total


def peers() -> dict[str, Kernel]:
    """Splines of the installed libraries."""
    known = {"nflows": _nflows, "normflows": _normflows, "zuko": _zuko}
    return {name: kernel() for name, kernel in known.items() if importlib.util.find_spec(name) is not None}


def _network(inputs: int, outputs: int, config: CouplingConfig) -> nn.Sequential:
    activation = nn.ReLU if config.activation is Activation.RELU else nn.SiLU
    layers: list[nn.Module] = []
    for width, following in pairwise((inputs, *config.hidden)):
        layers += [nn.Linear(width, following), activation()]
    last = nn.Linear((inputs, *config.hidden)[-1], outputs)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def _nflows() -> Kernel:
    from nflows.transforms.splines import rational_quadratic

    def kernel(inputs: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001
        spline = rational_quadratic.rational_quadratic_spline
        values, log_slopes = spline(inputs, widths, heights, slopes, inverse=inverse)
        return values.clamp(0.0, 1.0), log_slopes

    return kernel


def _normflows() -> Kernel:
    from normflows.utils import splines

    def kernel(inputs: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001
        values, log_slopes = splines.rational_quadratic_spline(inputs, widths, heights, slopes, inverse=inverse)
        return values.clamp(0.0, 1.0), log_slopes

    return kernel


def _zuko() -> Kernel:
    from zuko.transforms import MonotonicRQSTransform

    def kernel(inputs: Tensor, widths: Tensor, heights: Tensor, slopes: Tensor, inverse: bool) -> tuple[Tensor, Tensor]:  # noqa: FBT001
        # Its end slopes are fixed, which saves it two parameters.
        transform = MonotonicRQSTransform(widths, heights, slopes[..., 1:-1], bound=1.0)
        if not inverse:
            values, log_slopes = transform.call_and_ladj(2.0 * inputs - 1.0)
            return 0.5 * (values + 1.0), log_slopes
        values = transform.inv(2.0 * inputs - 1.0)
        return 0.5 * (values + 1.0), -transform.log_abs_det_jacobian(values, None)

    return kernel
