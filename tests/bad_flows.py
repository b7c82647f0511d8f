"""Flows that are wrong in a known way, with an exact density: independent mixtures of two normals on each axis."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from boltzport.core.layout import Layout
from boltzport.flows import Flow, Samples


@dataclass(frozen=True, kw_only=True)
class NormalsConfig:
    """It has no settings."""


class Normals(Flow):
    """Each coordinate is drawn from its own mixture of normals.

    Args:
        layout: The coordinates.
        means: Means of the components of each coordinate.
        widths: Standard deviations of the components.
        shares: Probabilities of the components.
    """

    kind: ClassVar[str] = "normals"
    config: Any = NormalsConfig()

    def __init__(
        self,
        layout: Layout,
        *,
        means: Tensor,
        widths: Tensor,
        shares: Tensor,
    ) -> None:
        super().__init__(layout, compiled=False)
        self.means, self.widths, self.shares = (
            nn.Parameter(means.double(), requires_grad=False),
            widths.double(),
            shares.double(),
        )

    @property
    def unit(self) -> Tensor:
        return self.length

    def initial_log_prob(self, coordinates: Tensor) -> Tensor:
        return self._log_prob(coordinates)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        normal = torch.distributions.Normal(self.means, self.widths)
        parts = normal.log_prob(coordinates[..., None]) + self.shares.log()
        return torch.logsumexp(parts, 2).sum(1)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        part = torch.multinomial(self.shares, n, replacement=True, generator=generator)
        normal = torch.randn(self.dimension, n, dtype=torch.float64, generator=generator)
        points = (self.means.gather(1, part) + self.widths.gather(1, part) * normal).T.contiguous()
        return Samples(points, self._log_prob(points))


def gaussian_flow(layout: Layout, mean: list[float], width: list[float]) -> Normals:
    """One normal on each axis."""
    means, widths = torch.tensor(mean)[:, None], torch.tensor(width)[:, None]
    return Normals(layout, means=means, widths=widths, shares=torch.ones_like(means))
