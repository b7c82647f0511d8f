"""Annealed importance sampling: from a proposal to a target along a path, with HMC transitions.

R. Neal, Annealed importance sampling, Statistics and Computing 11 (2001). The mean of the weights is the ratio of the
normalising constants of the two ends, whatever the transitions are like, as long as they leave their density alone.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.mcmc import hmc
from boltzport.mcmc.density import Combination, Density

Path = Callable[[Tensor, Tensor, float], Tensor]
"""(log_q, log_p, time) to the log density at a time of the path, point by point, differentiable; log_q at time 0."""


class Annealed(NamedTuple):
    """Points that went all the way.

    Attributes:
        coordinates: Where they ended.
        log_weights: Log importance weights with respect to the density at the end of the path, float64.
        acceptance: Mean acceptance at each time at which there were transitions.
    """

    coordinates: Float[Tensor, "chains dimensions"]
    log_weights: Float[Tensor, " chains"]
    acceptance: Float[Tensor, " times"]


def geometric(log_q: Tensor, log_p: Tensor, time: float) -> Tensor:
    """The geometric path q^(1-t) p^t."""
    # Zero times minus infinity is not a number.
    if time == 0.0:
        return log_q
    if time == 1.0:
        return log_p
    return (1.0 - time) * log_q + time * log_p


def anneal(
    samples: Float[Tensor, "chains dimensions"],
    generator: torch.Generator,
    *,
    density: Density,
    times: Float[Tensor, " times"],
    scales: Float[Tensor, "#chains dimensions"],
    step_sizes: Float[Tensor, " times"],
    leapfrogs: int,
    transitions: int = 1,
    path: Path = geometric,
) -> Annealed:
    """Carry samples of the proposal along the path.

    Args:
        samples: Independent samples of the proposal q.
        generator: Draws momenta and acceptances.
        density: Its `log_base` is log q, its `log_p` is log p.
        times: Increasing times after 0; the last is the end of the path. Each has its transitions but the last one,
            whose transitions would not change a weight.
        scales: Typical width of each coordinate.
        step_sizes: Of the transitions at each time, in units of the scales.
        leapfrogs: Mean number of steps of a trajectory.
        transitions: Trajectories at each time.
        path: The densities between.
    """
    state = hmc.init(samples, density)
    log_weights = torch.zeros(len(samples), dtype=torch.float64, device=samples.device)
    acceptances = []
    before = 0.0
    for number, after in enumerate(times.tolist()):
        log_weights = _add(log_weights, state, path, before, after)
        before = after
        if number == len(times) - 1:
            break
        accepted = []
        for _ in range(transitions):
            state, info = hmc.step(
                state,
                generator,
                density=density,
                scales=scales,
                step_size=float(step_sizes[number]),
                leapfrogs=hmc.draw_leapfrogs(leapfrogs, generator),
                combination=_at(path, after),
            )
            accepted.append(info.acceptance.mean())
        acceptances.append(torch.stack(accepted).mean())
    return Annealed(state.coordinates, log_weights, torch.stack(acceptances) if acceptances else times[:0])


def _at(path: Path, time: float) -> Combination:
    return lambda log_q, log_p: path(log_q, log_p, time)


def _add(log_weights: Tensor, state: hmc.State, path: Path, before: float, after: float) -> Tensor:
    """Log-weights after the density has changed; one that cannot be evaluated has no weight, and none ever after."""
    logs = state.parts.log_base, state.parts.log_p
    change = (path(*logs, after) - path(*logs, before)).double()
    lost = log_weights.isneginf() | change.isnan() | change.isneginf()
    return torch.where(lost, -torch.inf, log_weights + change)
