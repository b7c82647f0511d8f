"""The base density of a flow on the unit box: uniform or truncated normal."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.core.layout import Layout


class Base(nn.Module):
    """Independent densities on [0, 1] for each coordinate of a layout, sampled and evaluated exactly.

    Args:
        layout: The coordinates; centre and width are rescaled to the unit interval.
    """

    centre: Tensor
    width: Tensor
    low: Tensor
    high: Tensor
    log_scale: Tensor

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        lengths = [axis.upper - axis.lower for axis in layout]
        centre = [(axis.centre - axis.lower) / length for axis, length in zip(layout, lengths, strict=True)]
        width = [axis.width / length for axis, length in zip(layout, lengths, strict=True)]
        self._register("centre", torch.tensor(centre, dtype=torch.float64))
        self._register("width", torch.tensor(width, dtype=torch.float64))
        finite = self.width.isfinite()
        # Cumulative distribution of the normal at the two ends; 0 and 1 where the density is uniform.
        self._register("low", torch.where(finite, torch.special.ndtr(-self.centre / self.width), 0.0))
        self._register("high", torch.where(finite, torch.special.ndtr((1.0 - self.centre) / self.width), 1.0))
        normal = (self.high - self.low).log() + self.width.log() + 0.5 * math.log(2 * math.pi)
        self._register("log_scale", torch.where(finite, normal, 0.0))

    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "dimensions batch"]:
        """Draw samples by inversion of the cumulative distribution function.

        Args:
            n: Number of samples.
            generator: Random generator on the device of the module.
        """
        shape = (len(self.centre), n)
        uniform = torch.rand(shape, dtype=torch.float64, device=self.centre.device, generator=generator)
        low, high, centre, width = (part[:, None] for part in (self.low, self.high, self.centre, self.width))
        normal = centre + width * torch.special.ndtri(low + uniform * (high - low))
        return torch.where(width.isfinite(), normal, uniform).clamp(0.0, 1.0)

    def log_prob(self, points: Float[Tensor, "dimensions batch"]) -> Float[Tensor, " batch"]:
        """Log density of points in the unit box."""
        parts = (self.centre, self.width, self.log_scale)
        centre, width, log_scale = (part.to(points.dtype)[:, None] for part in parts)
        deviation = (points - centre) / width
        return (-0.5 * deviation * deviation - log_scale).sum(0)

    def _register(self, name: str, values: Tensor) -> None:
        self.register_buffer(name, values, persistent=False)
