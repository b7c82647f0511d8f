"""The coupling flow: treats all coordinates alike, and transforms half of them at a time."""

from collections.abc import Iterator
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.core.layout import Layout, Shape
from boltzport.flows.couplings.base import Base
from boltzport.flows.couplings.config import CouplingConfig
from boltzport.flows.couplings.coupling import Coupling
from boltzport.flows.flow import Flow, Samples


class CouplingFlow(Flow):
    """Couplings in pairs with complementary random masks, between a base density and the coordinates of a layout.

    Args:
        layout: The coordinates.
        config: Size of the flow.
        generator: Random generator for masks, rotations and initial weights.
        compiled: Whether to compile the splines at their first use, if a compiler is available.
        chunk: Number of points processed at once when no gradient is needed.
    """

    kind: ClassVar[str] = "couplings"
    config: CouplingConfig

    def __init__(
        self,
        layout: Layout,
        config: CouplingConfig,
        *,
        generator: torch.Generator,
        compiled: bool = True,
        chunk: int = 8192,
    ) -> None:
        super().__init__(layout, compiled=compiled, chunk=chunk)
        self.config = config
        self.base = Base(layout)
        self.layers = nn.ModuleList(_couplings(layout, config, self.base, generator))

    @property
    def couplings(self) -> list[Coupling]:
        """The couplings, from base to data."""
        return [layer for layer in self.layers if isinstance(layer, Coupling)]

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Length of each coordinate's range."""
        return self.length

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow, which is that of its base."""
        self._check(coordinates)
        points, inside = self._unit(coordinates)
        log_prob = self.base.log_prob(points) - self.log_volume.to(points.dtype)
        return torch.where(inside.all(0), log_prob, -torch.inf)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        points, inside = self._unit(coordinates)
        log_det = torch.zeros_like(points[0])
        for coupling in reversed(self.couplings):
            points, change = coupling(points, compiled=self.compiled)
            log_det = log_det + change
        log_prob = self.base.log_prob(points) + log_det - self.log_volume.to(points.dtype)
        return torch.where(inside.all(0), log_prob, -torch.inf)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        points = self.base.sample(n, generator=generator).to(self.dtype)
        log_q = self.base.log_prob(points) - self.log_volume.to(points.dtype)
        for coupling in self.couplings:
            points, change = coupling.inverse(points, compiled=self.compiled)
            log_q = log_q - change
        coordinates = self.lower.to(points.dtype) + self.length.to(points.dtype) * points.T
        return Samples(coordinates.contiguous(), log_q)


def _couplings(layout: Layout, config: CouplingConfig, base: Base, generator: torch.Generator) -> Iterator[Coupling]:
    """Pairs with complementary masks; a mask selects half of the intervals and half of the circles at random."""
    narrow = base.width.isfinite() & config.standardise
    centre, scale = torch.where(narrow, base.centre, 0.5), torch.where(narrow, base.width, 0.5)
    circular = [axis.shape is Shape.CIRCLE for axis in layout]
    for _ in range(config.pairs):
        halves = _halves(circular, generator)
        for transformed, fixed in (halves, halves[::-1]):
            yield Coupling(
                transformed=transformed,
                fixed=fixed,
                circular=circular,
                centre=centre,
                scale=scale,
                bins=config.bins,
                hidden=config.hidden,
                activation=config.activation,
                generator=generator,
            )


def _halves(circular: list[bool], generator: torch.Generator) -> tuple[list[int], list[int]]:
    first, second = [], []
    for shape in (False, True):
        members = [i for i, value in enumerate(circular) if value is shape]
        order = torch.randperm(len(members), generator=generator).tolist()
        # With odd numbers, the first half gets the extra interval and the second half the extra circle.
        cut = (len(members) + (not shape)) // 2
        first += sorted(members[i] for i in order[:cut])
        second += sorted(members[i] for i in order[cut:])
    return first, second
