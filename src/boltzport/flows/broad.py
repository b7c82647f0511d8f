"""A broader version of a flow, with an exact density: the defensive member of a mixture.

Mixed in with a small share, it bounds the weights where the flow is thin (defensive importance sampling, Hesterberg
1995). For a molecular flow, each torsion is drawn anew, anywhere on its circle, with a small probability, and the
stiff coordinates are drawn from a wider normal density. For couplings it is the untrained flow, with which their
annealing began.
"""

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.flows.couplings import CouplingFlow
from boltzport.flows.flow import Flow, Samples
from boltzport.flows.mixed import MixedFlow, MovedFlow
from boltzport.flows.molecular.flow import MolecularFlow

ANYWHERE = 0.5
"""Mean number of torsions of a point that are drawn anywhere."""
STRETCHED = 0.7
"""Excess width of the normal density of n stiff coordinates, times the square root of n: a divergence of 0.5 nats."""


class Untrained(Flow):
    """The base density of a coupling flow.

    Args:
        flow: The flow.
    """

    kind: ClassVar[str] = "untrained"
    config: Any = None

    def __init__(self, flow: CouplingFlow) -> None:
        super().__init__(flow.layout, compiled=False, chunk=flow.chunk)
        self.inner = flow
        self.to(flow.device)

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Length of each coordinate's range."""
        return self.inner.unit

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density: there is no training."""
        return self.inner.initial_log_prob(coordinates)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        return self.inner.initial_log_prob(coordinates)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        unit = self.inner.base.sample(n, generator=generator).to(self.dtype)
        points = (self.lower.to(unit) + self.length.to(unit) * unit.T).contiguous()
        return Samples(points, self._log_prob(points))


class BroadMolecular(Flow):
    """A molecular flow with broader torsions and stiff coordinates.

    Args:
        flow: The flow.
        anywhere: Mean number of torsions of a point that are drawn uniformly, whatever those before them are.
        stretched: Excess width of the stiff coordinates' base density, times the square root of their number.
    """

    kind: ClassVar[str] = "broad"
    config: Any = None

    def __init__(self, flow: MolecularFlow, *, anywhere: float = ANYWHERE, stretched: float = STRETCHED) -> None:
        super().__init__(flow.layout, compiled=flow.compiled, chunk=flow.chunk)
        self.inner = flow
        self._anywhere = min(anywhere / max(len(flow.torsions), 1), 1.0)
        self._stretch = 1.0 + stretched / math.sqrt(max(len(flow.stiff), 1))
        self.to(flow.device)

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Unit of length of each coordinate."""
        return self.inner.unit

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow."""
        return self.inner.initial_log_prob(coordinates)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        return self.inner.broad_log_prob(coordinates, anywhere=self._anywhere, stretch=self._stretch)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        points = self.inner.broad_sample(n, anywhere=self._anywhere, stretch=self._stretch, generator=generator)
        return Samples(points, self._log_prob(points))


def broadened(flow: Flow) -> Flow:
    """A broader version of a flow.

    Raises:
        InputError: There is none for this kind of flow.
    """
    if isinstance(flow, MolecularFlow):
        return BroadMolecular(flow)
    if isinstance(flow, CouplingFlow):
        return Untrained(flow)
    if isinstance(flow, MixedFlow):
        return MixedFlow([broadened(member) for member in flow.flows], flow.shares)
    if isinstance(flow, MovedFlow):
        return flow.around(broadened(flow.inner))
    raise InputError(f"defensive: expected a molecular or coupling flow, or a mixture of them, got {flow.kind}")


def defended(flow: Flow, share: float) -> Flow:
    """A flow with a share of its broader version mixed in.

    Args:
        flow: The flow.
        share: Share of the broader version; 0 for none.

    Raises:
        InputError: The share is not in [0, 1), or there is no broader version.
    """
    if not 0.0 <= share < 1.0:
        raise InputError(f"defensive: expected a share of at least 0 and below 1, got {share:g}")
    return MixedFlow([flow, broadened(flow)], [1.0 - share, share]) if share else flow
