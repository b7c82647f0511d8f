"""One pass of annealed importance sampling: from the flow to p^2 / q, where the flow has the most to learn."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout
from boltzport.flows import Flow
from boltzport.mcmc import Density, Logs, ais, differentiate
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.methods.fab.replay import Replay

FREE = 0.1
"""Typical width of a coordinate whose base density is uniform, in units of its range."""


class Bootstrapped(NamedTuple):
    """Result of a pass. Log-weights cover all chains; they are minus infinity where a density was not finite.

    Attributes:
        points: Final points of the chains that have a finite weight with respect to p^2 / q.
        log_flow: Log-weights p / q of the flow's own samples, the initial points of the chains.
        log_weights: Log-weights with respect to p^2 / q at the final points.
        log_annealed: Log-weights with respect to p at the final points.
        entropy: Entropy of the flow in nats, with respect to the target's measure.
        acceptance: Mean acceptance rate at each intermediate density.
        failed: Number of chains without a weight.
    """

    points: Replay
    log_flow: Float[Tensor, " chains"]
    log_weights: Float[Tensor, " chains"]
    log_annealed: Float[Tensor, " chains"]
    entropy: float
    acceptance: Float[Tensor, " intermediate"]
    failed: int


def bootstrap(
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    step_sizes: Float[Tensor, " intermediate"],
    leapfrogs: int,
    generator: torch.Generator,
) -> Bootstrapped:
    """Draw samples of the flow and anneal them to p^2 / q.

    Args:
        flow: The flow; not modified.
        target: Target density; must be differentiable.
        n: Number of chains.
        step_sizes: Leapfrog step size at each intermediate density, in units of `typical_widths`.
        leapfrogs: Number of leapfrog steps per trajectory.
        generator: Random generator for points, momenta and acceptances.

    Raises:
        InputError: The target has no gradient.
    """
    with torch.no_grad():
        samples = flow.sample(n, generator=generator)
    volumes: list[Tensor] = []

    def logs(points: Tensor) -> Logs:
        log_p, log_volume = target.evaluate(points, Purpose.TRAINING)
        if not log_p.requires_grad:
            raise InputError("fab needs a target with a gradient for its Markov chains, but this one has none; use cmt")
        volumes.append(log_volume.detach())
        log_q = flow.log_prob(points).double()
        # Half way the density is p alone: chains could leave the support of the flow and lose their weights.
        return Logs(log_q, torch.where(log_q.isfinite(), log_p + log_volume, -torch.inf))

    times = torch.linspace(0.0, 1.0, len(step_sizes) + 2, dtype=torch.float64, device=step_sizes.device)[1:]
    done = ais.anneal(
        samples,
        generator,
        density=Density(parts=differentiate(logs)),
        times=times,
        scales=typical_widths(flow.layout).to(samples)[None],
        # At the end of the path there is no transition.
        step_sizes=torch.cat([step_sizes, step_sizes[-1:]]),
        leapfrogs=leapfrogs,
        jitter=False,
        path=ais.minimum_variance,
    )
    (log_q_first, log_p_first), (log_q, log_p) = done.first, done.last
    good = done.log_weights.isfinite() & log_q.isfinite() & log_p.isfinite()
    log_weights = torch.where(good, done.log_weights, -torch.inf)
    log_flow = log_p_first - log_q_first
    inside = log_q_first.isfinite()
    return Bootstrapped(
        points=Replay(done.coordinates, log_weights + log_q, log_q).part(good),
        log_flow=torch.where(log_flow.isfinite(), log_flow, -torch.inf),
        log_weights=log_weights,
        log_annealed=torch.where(good, log_weights + log_q - log_p, -torch.inf),
        # The first volumes are those of the flow's own samples.
        entropy=float((volumes[0] - log_q_first)[inside].mean()),
        acceptance=done.acceptance,
        failed=n - int(good.sum()),
    )


def typical_widths(layout: Layout) -> Float[Tensor, " dimensions"]:
    """Length scale of each coordinate: the width of its base density, or a fraction of its range."""
    widths = [axis.width if math.isfinite(axis.width) else FREE * (axis.upper - axis.lower) for axis in layout]
    return torch.tensor(widths, dtype=torch.float64, device="cpu")
