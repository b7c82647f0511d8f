"""Short exact Markov chains on resampled frames."""

from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose


@runtime_checkable
class Refine(Protocol):
    """A Markov kernel in the coordinates that leaves the target invariant.

    The invariant density with respect to the coordinates is exp(log_p + log_volume) of `Target.evaluate`. The kernel is
    called with gradients disabled; if it needs them, it must enable them.
    """

    def __call__(
        self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator
    ) -> Float[Tensor, "batch dimensions"]:
        """Move each point by some steps of its own chain."""


class IndependenceMetropolis:
    """Exact Metropolis steps with the flow as the proposal, which is independent of the current point.

    A proposal x' is accepted with probability min(1, w(x') / w(x)), w = p / q (Tierney 1994).

    Args:
        flow: The proposal.
        target: The invariant density.
        steps: Number of proposals for each point.
    """

    def __init__(self, flow: Flow, target: CountedTarget, *, steps: int = 10) -> None:
        self.flow = flow
        self.target = target
        self.steps = steps

    @torch.no_grad()
    def __call__(
        self, coordinates: Float[Tensor, "batch dimensions"], *, generator: torch.Generator
    ) -> Float[Tensor, "batch dimensions"]:
        """Move each point by `steps` proposals."""
        current = coordinates
        log_weights = self._log_weights(current, self.flow.log_prob(current))
        for _ in range(self.steps):
            proposed, log_q = self.flow.sample_and_log_prob(len(current), generator=generator)
            proposed_log_weights = self._log_weights(proposed, log_q)
            uniform = torch.rand(
                len(current), generator=generator, dtype=torch.float64, device=proposed_log_weights.device
            )
            # log1p(-u) with u in [0, 1) is finite, and a failed proposal (-inf) is never accepted.
            accepted = torch.log1p(-uniform) < proposed_log_weights - log_weights
            current = torch.where(accepted[:, None], proposed, current)
            log_weights = torch.where(accepted, proposed_log_weights, log_weights)
        return current

    def _log_weights(self, coordinates: Tensor, log_q: Tensor) -> Tensor:
        log_p, log_volume = self.target.evaluate(coordinates, Purpose.EVALUATION)
        log_weights = log_p + log_volume - log_q.double()
        return torch.where(log_weights.isfinite(), log_weights, -torch.inf)
