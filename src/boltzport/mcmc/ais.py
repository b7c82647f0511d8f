"""Annealed importance sampling: from a proposal to a target along a path, with HMC transitions.

R. Neal, Annealed importance sampling, Statistics and Computing 11 (2001). The mean of the weights is the ratio of the
normalising constants of the two ends, for any transitions that leave their density invariant.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.mcmc import hmc
from boltzport.mcmc.density import Combination, Density, Logs

Path = Callable[[Tensor, Tensor, float], Tensor]
"""Maps (log_q, log_p, time) to the log density at a time of the path, pointwise and differentiable; log_q at time 0."""


class Annealed(NamedTuple):
    """Points at the end of the path.

    Attributes:
        coordinates: Final points.
        log_weights: Log importance weights with respect to the density at the end of the path, float64.
        acceptance: Mean acceptance rate at each time that had transitions.
        first: Log q and log p at the initial points.
        last: Log q and log p at the final points.
    """

    coordinates: Float[Tensor, "chains dimensions"]
    log_weights: Float[Tensor, " chains"]
    acceptance: Float[Tensor, " times"]
    first: Logs
    last: Logs


def geometric(log_q: Tensor, log_p: Tensor, time: float) -> Tensor:
    """The geometric path q^(1-t) p^t."""
    # Zero times minus infinity is NaN.
    if time == 0.0:
        return log_q
    if time == 1.0:
        return log_p
    return (1.0 - time) * log_q + time * log_p


def minimum_variance(log_q: Tensor, log_p: Tensor, time: float) -> Tensor:
    """The geometric path to p^2 / q, which estimates the weights p / q with minimum variance; p is half way."""
    if time == 0.0:
        return log_q
    if time == 0.5:
        return log_p
    return (1.0 - 2.0 * time) * log_q + 2.0 * time * log_p


def anneal(
    samples: Float[Tensor, "chains dimensions"],
    generator: torch.Generator,
    *,
    density: Density,
    times: Float[Tensor, " times"],
    scales: Float[Tensor, "#chains dimensions"] | Float[Tensor, "times #chains dimensions"],
    step_sizes: Float[Tensor, " times"],
    leapfrogs: int,
    transitions: int = 1,
    jitter: bool = True,
    path: Path = geometric,
) -> Annealed:
    """Anneal samples of the proposal along the path.

    Args:
        samples: Independent samples of the proposal q.
        generator: Random generator for momenta and acceptances.
        density: Density whose `log_base` is log q and whose `log_p` is log p.
        times: Increasing times after 0; the last is the end of the path. All times have transitions except the last,
            where transitions would not change the weights.
        scales: Typical width of each coordinate, common to all times or at each time.
        step_sizes: Step size of the transitions at each time, in units of the scales.
        leapfrogs: Mean number of leapfrog steps per trajectory.
        transitions: Number of trajectories at each time.
        jitter: Whether to draw the number of steps around its mean; if not, the number of evaluations is fixed.
        path: The intermediate densities.
    """
    state = hmc.init(samples, density)
    first = _logs(state)
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
                scales=scales[number] if scales.ndim == 3 else scales,
                step_size=float(step_sizes[number]),
                leapfrogs=hmc.draw_leapfrogs(leapfrogs, generator) if jitter else leapfrogs,
                combination=_at(path, after),
            )
            accepted.append(info.acceptance.mean())
        acceptances.append(torch.stack(accepted).mean())
    acceptance = torch.stack(acceptances) if acceptances else times[:0]
    return Annealed(state.coordinates, log_weights, acceptance, first, _logs(state))


def _logs(state: hmc.State) -> Logs:
    return Logs(state.parts.log_base, state.parts.log_p)


def _at(path: Path, time: float) -> Combination:
    return lambda log_q, log_p: path(log_q, log_p, time)


def _add(log_weights: Tensor, state: hmc.State, path: Path, before: float, after: float) -> Tensor:
    """Log-weights after a change of the density; a point that cannot be evaluated loses its weight permanently."""
    logs = _logs(state)
    change = (path(*logs, after) - path(*logs, before)).double()
    lost = log_weights.isneginf() | change.isnan() | change.isneginf()
    return torch.where(lost, -torch.inf, log_weights + change)
