"""log Z by annealed chains from the reference to the model: an estimate that covers the modes of the reference."""

import math

import numpy as np
import torch
from torch import Tensor

from boltzport.analysis.evaluation.frames import ReferenceFrames
from boltzport.analysis.evaluation.observables import from_known
from boltzport.analysis.metrics import LogZ
from boltzport.core.weights import log_mean
from boltzport.flows import Flow
from boltzport.mcmc import Density, Logs, ais, differentiate
from boltzport.targets import CountedTarget, Purpose

CHAINS = 1000
TIMES = 6
LEAPFROGS = 4
STEP_SIZE = 0.25
"""Step size of HMC, in units of the widths of the base density."""
FREE = 0.7
"""Typical width of a coordinate that rotates freely, in radian."""


def annealed_log_z(
    flow: Flow, target: CountedTarget, frames: ReferenceFrames, *, generator: torch.Generator
) -> LogZ | None:
    """Log Z from frames of a reference that a few HMC trajectories each anneal to the model's density.

    The mean weight is 1 / Z, since the model is normalised, wherever the chains start; frames in modes that the model
    lacks have almost no weight, but still count in the mean. None if the target has no gradient.

    Args:
        flow: The model.
        target: The target.
        frames: The reference; evenly spaced frames are used, in proportion to their weights.
        generator: Random generator of momenta and acceptances.
    """
    chosen = _spaced(frames.weights, CHAINS)
    parameter = next(flow.parameters())
    known = torch.from_numpy(np.ascontiguousarray(frames.coordinates[chosen])).double()
    points = from_known(target.target, known).to(parameter.device)

    def logs(x: Tensor) -> Logs:
        found = target.evaluate(x, Purpose.EVALUATION)
        return Logs(found.log_p + found.log_volume, flow.log_prob(x.to(parameter.dtype)).double())

    if not target.target.evaluate(points[:1].clone().requires_grad_()).log_p.requires_grad:
        return None
    widths = torch.tensor([axis.width if math.isfinite(axis.width) else FREE for axis in flow.layout])
    annealed = ais.anneal(
        points,
        generator,
        density=Density(parts=differentiate(logs)),
        times=torch.linspace(0.0, 1.0, TIMES + 1, dtype=torch.float64)[1:],
        scales=widths.to(points)[None],
        step_sizes=torch.full((TIMES,), STEP_SIZE),
        leapfrogs=LEAPFROGS,
    )
    if not bool(annealed.log_weights.isfinite().any()):
        return None
    mean = log_mean(annealed.log_weights)
    return LogZ("annealed chains from the reference", -mean.value, mean.error)


def _spaced(weights: np.ndarray, count: int) -> np.ndarray:
    """Indices of frames at equal steps of the cumulative weight: in proportion to their weights, from all chains."""
    total = np.cumsum(weights)
    places = np.searchsorted(total, (np.arange(count) + 0.5) / count * total[-1])
    return np.asarray(np.minimum(places, len(weights) - 1))
