"""Reuse of previous buffers: exact weights for points of several proposals."""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flows import Flow
from boltzport.training.base import Checkpoint
from boltzport.training.buffer import Buffer


class Former(NamedTuple):
    """A previous buffer.

    Attributes:
        weights: Parameters (state dict) of the flow that drew it.
        buffer: Its points; `log_q` is the log density of that flow.
        log_proposals: Log density of each point under the flow of every previous buffer, oldest first.
    """

    weights: dict[str, Tensor]
    buffer: Buffer
    log_proposals: Float[Tensor, "batch proposals"]


class Formers:
    """The last few buffers and the flows that drew them.

    Args:
        count: Number of buffers to keep.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._kept: list[Former] = []

    @torch.no_grad()
    def join(self, flow: Flow, fresh: Buffer) -> Buffer:
        """Join the fresh buffer with all previous ones, weighted with respect to the flow, and keep the fresh one.

        Every point is treated as a sample of the mixture of all proposals (the balance heuristic), so its weight is
        q_i / sum_k (n_k / n) q_k, which is bounded by n / n_i for any previous flows.

        Args:
            flow: The flow that drew the fresh buffer.
            fresh: The fresh buffer.
        """
        if not self._count:
            return fresh
        scratch = copy.deepcopy(flow)
        columns, everyone = [], []
        for former in self._kept:
            scratch.load_state_dict(former.weights)
            columns.append(scratch.log_prob(fresh.coordinates).double() - fresh.log_volume)
            log_q = flow.log_prob(former.buffer.coordinates).double() - former.buffer.log_volume
            everyone.append(former._replace(log_proposals=torch.cat([former.log_proposals, log_q[:, None]], 1)))
        weights = {name: value.clone() for name, value in flow.state_dict().items()}
        everyone.append(Former(weights, fresh, torch.stack([*columns, fresh.log_q], 1)))
        dropped = max(0, len(everyone) - self._count)
        self._kept = [former._replace(log_proposals=former.log_proposals[:, dropped:]) for former in everyone[dropped:]]
        return _mixture(everyone)

    def save(self) -> Checkpoint:
        """Return all previous buffers."""
        return {"kept": [[former.weights, list(former.buffer), former.log_proposals] for former in self._kept]}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self._kept = [Former(weights, Buffer(*fields), columns) for weights, fields, columns in checkpoint["kept"]]


def _mixture(formers: list[Former]) -> Buffer:
    """All points, weighted with respect to the last proposal."""
    log_proposals = torch.cat([former.log_proposals for former in formers])
    counts = torch.tensor([former.buffer.size for former in formers], dtype=torch.float64, device=log_proposals.device)
    log_mixture = torch.logsumexp(log_proposals + (counts / counts.sum()).log(), 1)
    log_q = log_proposals[:, -1]
    joined = Buffer(*(torch.cat(fields) for fields in zip(*(former.buffer for former in formers), strict=True)))
    joined = joined._replace(log_q=log_q, log_base=log_q - log_mixture)
    # Rounding may move a point at the edge of the box outside of it, where a flow has no density.
    return joined.part(log_q.isfinite() & log_mixture.isfinite())
