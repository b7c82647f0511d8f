"""Annealed draws: points of a flow that HMC trajectories carry to the target along a path of densities.

Each draw is annealed on its own (annealed importance sampling, Neal 2001): draws stay independent, their weights are
exact for any schedule that was fixed before, and log Z has the error of a mean of independent weights. There is no
resampling between the densities, which would correlate the draws.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.ensembles.numbers import Frames, Numbers, to_numpy
from boltzport.flows import Flow
from boltzport.mcmc import Density, Logs, ais, differentiate
from boltzport.targets import CountedTarget, Purpose

BATCH = 1024
"""Number of draws that are annealed at once."""
MOST = 4096
"""Largest number of intermediate densities."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule of intermediate densities q^(1-t) p^t, with the trajectories at each.

    Attributes:
        times: Times of the intermediate densities, increasing, and 1 for the target.
        step_sizes: Leapfrog step size at each time, in units of the scales.
        scales: Width of each coordinate at each time.
        leapfrogs: Mean number of leapfrog steps per trajectory; there is one trajectory at each intermediate density.
    """

    times: Float[Tensor, " times"]
    step_sizes: Float[Tensor, " times"]
    scales: Float[Tensor, "times dimensions"]
    leapfrogs: int

    @property
    def densities(self) -> int:
        """Number of intermediate densities."""
        return len(self.times) - 1


def check_densities(anneal: int | str | None) -> int | None:
    """The number of intermediate densities; None for `auto`.

    Raises:
        InputError: It is neither `auto` nor a whole number in the range.
    """
    if anneal == "auto":
        return None
    try:
        number = float(anneal or 0)
    except ValueError:
        number = -1.0
    found = int(number) if 0.0 <= number <= MOST else -1
    if found < 0 or found != number:
        raise InputError(f"anneal: expected auto or a number of densities from 0 to {MOST}, got {anneal}")
    return found


def path_density(flow: Flow, target: CountedTarget) -> Density:
    """The two ends of the path with their gradients: log q is the base, log p includes the volume of the coordinates.

    Raises:
        InputError: The target has no gradient.
    """
    if not target.differentiable:
        raise InputError(f"anneal: the energy of {target.target.name} has no forces, which annealing needs; use 0")

    def logs(points: Tensor) -> Logs:
        found = target.evaluate(points, Purpose.EVALUATION)
        return Logs(flow.log_prob(points).double(), found.log_p + found.log_volume)

    return Density(parts=differentiate(logs))


def annealed(
    flow: Flow,
    target: CountedTarget,
    n: int,
    plan: Plan,
    *,
    generator: torch.Generator,
    batch: int = BATCH,
) -> Iterator[Frames]:
    """Batches of annealed draws with their weights; their `log_q` is not known.

    Args:
        flow: The flow that the draws start from.
        target: The target; its ledger counts the energies and forces.
        n: Number of draws.
        plan: Schedule, which must not depend on the draws.
        generator: Random generator, on the device of the flow.
        batch: Number of draws that are annealed at once.
    """
    density = path_density(flow, target)
    for start in range(0, n, batch):
        with torch.no_grad():
            points = flow.sample(min(batch, n - start), generator=generator)
            done = ais.anneal(
                points,
                generator,
                density=density,
                times=plan.times,
                scales=plan.scales[:, None].to(points),
                step_sizes=plan.step_sizes,
                leapfrogs=plan.leapfrogs,
            )
            coordinates = wrapped(flow, done.coordinates)
            log_p = target.evaluate(coordinates, Purpose.EVALUATION).log_p
        size = len(points)
        unknown, draw = np.full(size, np.nan), np.arange(start, start + size)
        yield Frames(coordinates, Numbers(to_numpy(done.log_weights), to_numpy(-log_p), unknown, draw))


def wrapped(flow: Flow, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
    """Points with their periodic coordinates in the range of the layout: trajectories may go round."""
    lower, period = flow.lower.to(coordinates), flow.period.to(coordinates)
    turns = torch.where(period.isfinite(), torch.floor((coordinates - lower) / period), 0.0)
    return coordinates - turns * period.nan_to_num(posinf=0.0)
