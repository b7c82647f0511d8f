"""Several flows as one proposal: a mixture, whose density is known wherever the densities of its members are.

Weights against the density of the mixture (the balance heuristic, Veach and Guibas 1995) are exact, whichever member a
point comes from. With equal shares their chi-square is never worse than the mean of the members', since it is convex
in the density.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout
from boltzport.flows.flow import Flow, Samples


class MixedFlow(Flow):
    """A mixture of flows over the same coordinates. It is not saved to a file: its members are.

    Args:
        members: The flows; the layout of the first is that of the mixture.
        shares: Probabilities of the members; equal by default.

    Raises:
        InputError: The shares are not positive numbers, one for each member, that sum to one.
    """

    kind: ClassVar[str] = "mixture"
    config: Any = None
    log_shares: Tensor

    def __init__(self, members: Sequence[Flow], shares: Sequence[float] | None = None) -> None:
        super().__init__(members[0].layout, chunk=members[0].chunk)
        shares = [1 / len(members)] * len(members) if shares is None else list(shares)
        whole = len(shares) == len(members) and abs(sum(shares) - 1.0) < 1e-9
        if not whole or not all(0.0 < share <= 1.0 for share in shares):
            got = ", ".join(f"{share:g}" for share in shares)
            raise InputError(f"shares: expected {len(members)} positive numbers that sum to 1, got {got}")
        self.members = nn.ModuleList(members)
        self.register_buffer("log_shares", torch.tensor(shares, dtype=torch.float64).log(), persistent=False)
        self.to(members[0].device)

    @property
    def flows(self) -> list[Flow]:
        """The members."""
        return [member for member in self.members if isinstance(member, Flow)]

    @property
    def shares(self) -> list[float]:
        """Probabilities of the members."""
        found: list[float] = self.log_shares.exp().tolist()
        return found

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Unit of length of each coordinate, that of the first member."""
        return self.flows[0].unit

    def with_shares(self, shares: Sequence[float]) -> "MixedFlow":
        """The same members with other shares."""
        return MixedFlow(self.flows, shares)

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained members."""
        return self._mixed(torch.stack([flow.initial_log_prob(coordinates) for flow in self.flows], 1))

    def log_probs(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch members"]:
        """Log density of each member, float64."""
        return torch.stack([flow.log_prob(coordinates).double() for flow in self.flows], 1)

    def _mixed(self, log_probs: Tensor) -> Tensor:
        return torch.logsumexp(log_probs.double() + self.log_shares, 1)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        return self._mixed(self.log_probs(coordinates))

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        # Members are drawn at random and not in fixed numbers, so that the points are independent of each other.
        member = torch.multinomial(self.log_shares.exp(), n, replacement=True, generator=generator)
        points = self.length.new_empty(n, self.dimension, dtype=self.dtype)
        for number, flow in enumerate(self.flows):
            rows = (member == number).nonzero()[:, 0]
            drawn = flow.sample(len(rows), generator=generator).to(self.dtype)
            points = points.index_copy(0, rows, drawn)
        return Samples(points, self._log_prob(points))


class MovedFlow(Flow):
    """A flow seen in other coordinates, through a bijection with a constant determinant.

    Args:
        flow: The flow.
        layout: The other coordinates.
        forward: Maps coordinates of the flow to the other ones, in float64.
        backward: Its inverse.
        log_det: Log of the volume of the other coordinates per unit of the flow's.
    """

    kind: ClassVar[str] = "moved"
    config: Any = None

    def __init__(
        self,
        flow: Flow,
        layout: Layout,
        *,
        forward: Callable[[Tensor], Tensor],
        backward: Callable[[Tensor], Tensor],
        log_det: float,
    ) -> None:
        super().__init__(layout, chunk=flow.chunk)
        if not math.isfinite(log_det):
            raise InputError(f"expected a bijection with a finite determinant, got log {log_det}")
        self.inner, self._forward_map, self._backward_map, self._log_det = flow, forward, backward, log_det
        self.to(flow.device)

    @property
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Range of each coordinate."""
        return self.length

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow."""
        return self.inner.initial_log_prob(self._there(coordinates)).double() - self._log_det

    def around(self, flow: Flow) -> "MovedFlow":
        """Another flow in the same coordinates, moved alike."""
        return MovedFlow(
            flow, self.layout, forward=self._forward_map, backward=self._backward_map, log_det=self._log_det
        )

    def _there(self, coordinates: Tensor) -> Tensor:
        return self._backward_map(coordinates.double()).to(self.inner.dtype)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        return self.inner.log_prob(self._there(coordinates)).double() - self._log_det

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        points, log_q = self.inner.sample_and_log_prob(n, generator=generator)
        return Samples(self._forward_map(points.double()).to(points.dtype), log_q.double() - self._log_det)
