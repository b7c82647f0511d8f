"""Flows of two halves: a density of the torsions, and one of the stiff coordinates given the torsions."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.flow.flow import Flow, Samples


class SlopedSamples(NamedTuple):
    """Points, and how the log density of their stiff coordinates given the torsions changes with the stiff coordinates.

    Attributes:
        coordinates: Differentiable with respect to the parameters.
        slope: With respect to the stiff coordinates, in the units of the layout; no part of the graph.
        log_q: Log density of the stiff coordinates given the torsions; no part of the graph.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    slope: Float[Tensor, "batch stiff"]
    log_q: Float[Tensor, " batch"]


class HalvedFlow(Flow):
    """A flow whose two halves can be trained apart, since log q = log q(torsions) + log q(stiff | torsions).

    Attributes:
        torsions: Which coordinates are of the first half.
        stiff: Which are of the second.
    """

    torsions: Tensor
    stiff: Tensor

    @property
    @abstractmethod
    def torsion_parameters(self) -> list[nn.Parameter]:
        """Parameters of the density of the torsions."""

    @property
    @abstractmethod
    def stiff_parameters(self) -> list[nn.Parameter]:
        """Parameters of the density of the stiff coordinates."""

    @abstractmethod
    def renew_stiff(self, *, generator: torch.Generator) -> None:
        """Give the density of the stiff coordinates other initial weights: it is as before any training."""

    @abstractmethod
    def log_prob_of_torsions(self, torsions: Float[Tensor, "batch torsions"]) -> Float[Tensor, " batch"]:
        """Log density of torsions, in the order of `torsions`."""

    def torsion_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the torsions of points."""
        self._check(coordinates)
        return self.log_prob_of_torsions(coordinates[:, self.torsions])

    @abstractmethod
    def stiff_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the stiff coordinates of points given their torsions."""

    @abstractmethod
    def sample_stiff(self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator) -> Samples:
        """Draw stiff coordinates given the torsions of points; `log_q` is their log density given the torsions.

        With gradients enabled, both are differentiable with respect to the parameters.
        """

    @abstractmethod
    def sample_stiff_with_slope(
        self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator
    ) -> SlopedSamples:
        """Draw stiff coordinates given the torsions of points, and the slope of their log density."""

    @abstractmethod
    def stiff_with_slope(self, coordinates: Float[Tensor, "batch dimensions"]) -> SlopedSamples:
        """Points as if their stiff coordinates had been drawn, and the slope of their log density.

        The coordinates that come back are those that were given, as functions of the parameters with the random numbers
        behind them held.
        """

    def sample_by_halves(self, n: int, each: int, *, generator: torch.Generator) -> Samples:
        """Draw torsions, and several sets of stiff coordinates for each: what tells which half falls short.

        Args:
            n: How many torsions.
            each: Sets of stiff coordinates for each; their points stand together.
            generator: On the device of the flow.
        """
        points = self.sample(n, generator=generator).repeat_interleave(each, 0)
        log_torsions = self.torsion_log_prob(points)
        coordinates, log_stiff = self.sample_stiff(points, generator=generator)
        return Samples(coordinates, log_torsions + log_stiff)
