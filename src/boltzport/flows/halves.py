"""Flows of two halves: a density of the torsions, and one of the stiff coordinates given the torsions."""

from abc import abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.flows.flow import Flow, Samples


class SlopedSamples(NamedTuple):
    """Points, and the gradient of the log density of their stiff coordinates given the torsions.

    Attributes:
        coordinates: Points, differentiable with respect to the parameters.
        slope: Gradient with respect to the stiff coordinates, in the units of the layout; detached from the graph.
        log_q: Log density of the stiff coordinates given the torsions; detached from the graph.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    slope: Float[Tensor, "batch stiff"]
    log_q: Float[Tensor, " batch"]


class HalvedFlow(Flow):
    """A flow whose two halves can be trained separately: log q = log q(torsions) + log q(stiff | torsions).

    Attributes:
        torsions: Indices of the coordinates of the first half.
        stiff: Indices of the coordinates of the second half.
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
        """Reinitialise the density of the stiff coordinates with new random weights."""

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
        """Draw stiff coordinates given the torsions of points, with the slope of their log density."""

    @abstractmethod
    def stiff_with_slope(self, coordinates: Float[Tensor, "batch dimensions"]) -> SlopedSamples:
        """Points as if their stiff coordinates had been sampled, with the slope of their log density.

        The returned coordinates are the given ones, as functions of the parameters with the underlying random numbers
        fixed.
        """

    def sample_by_halves(self, n: int, each: int, *, generator: torch.Generator) -> Samples:
        """Draw torsions, and several sets of stiff coordinates for each, to tell which half is worse.

        Args:
            n: Number of torsion samples.
            each: Number of sets of stiff coordinates for each torsion sample; their points are adjacent.
            generator: Random generator on the device of the flow.
        """
        points = self.sample(n, generator=generator).repeat_interleave(each, 0)
        log_torsions = self.torsion_log_prob(points)
        coordinates, log_stiff = self.sample_stiff(points, generator=generator)
        return Samples(coordinates, log_torsions + log_stiff)
