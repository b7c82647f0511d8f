"""A pilot population that goes from the flow to the target, and measures what a schedule between them needs.

The population takes steps of bounded divergence: the next time is where the conditional effective sample size falls to
a bound (Zhou, Johansen, Aston 2016). It is resampled when its weights become uneven, and moved at each density by HMC
trajectories whose step size follows their acceptance rate. The sum of the square roots of the divergences is the length
of the path; densities at equal distances along it give the annealed weights the least variance for their number (Syed
et al. 2021). Nothing of the pilot enters the draws except the schedule, so that their weights stay exact.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.progress import Progress, silent
from boltzport.core.weights import effective_fraction, normalised
from boltzport.ensembles.anneal import Plan, path_density
from boltzport.flows import Flow
from boltzport.mcmc import Combination, Density, Parts, ais, combine, hmc
from boltzport.targets import CountedTarget

POPULATION = 1024
"""Number of points of the pilot."""
CONDITIONAL = 0.8
"""Conditional effective sample size, as a fraction, of a step of the pilot."""
UNEVEN = 0.5
"""Effective sample size, as a fraction, below which the population is resampled."""
WANTED = 0.8
"""Target acceptance rate of the trajectories."""
LEAPFROGS = 5
"""Mean number of leapfrog steps of a trajectory."""
FIRST_STEP = 0.3
"""Initial step size, in units of the scales."""
FIRST_ROUNDS, ROUNDS = 16, 4
"""Number of trajectories at the first density, where the step size is not yet known, and at each later one."""
GAIN = 0.5
"""Change of the log step size per unit error of the acceptance rate."""
LONGEST = 400
"""Largest number of steps; the last one goes to the target, however far that is."""
NORMAL_MEDIAN = 0.6745
"""Median absolute deviation of a standard normal variable."""
FREE = 0.25
"""Largest scale of a coordinate, in units of its range."""


class Course(NamedTuple):
    """What a pilot measured on its way, at increasing times from 0 to 1.

    Attributes:
        times: Times of the pilot's densities.
        lengths: Length of the path from the flow to each of them, in units of the standard deviation of log-weights.
        step_sizes: Adapted step size at each.
        scales: Width of each coordinate at each.
    """

    times: Float[Tensor, " times"]
    lengths: Float[Tensor, " times"]
    step_sizes: Float[Tensor, " times"]
    scales: Float[Tensor, "times dimensions"]

    @property
    def length(self) -> float:
        """Length of the whole path: with K densities that mix, log-weights have a variance of its square over K + 1."""
        return float(self.lengths[-1])

    def plan(self, densities: int) -> Plan:
        """A schedule of intermediate densities at equal distances along the path.

        Args:
            densities: Number of intermediate densities.
        """
        levels = torch.linspace(0.0, 1.0, densities + 2, dtype=torch.float64)[1:]
        # Where the flow equals the target, time itself measures the way.
        along = self.lengths / self.length if self.length > 0.0 else self.times
        right = torch.searchsorted(along.contiguous(), levels).clamp(1, len(along) - 1)
        span = (along[right] - along[right - 1]).clamp_min(1e-300)
        part = ((levels - along[right - 1]) / span).clamp(0.0, 1.0)

        def at(values: Tensor) -> Tensor:
            share = part if values.ndim == 1 else part[:, None]
            return values[right - 1] + share * (values[right] - values[right - 1])

        times = at(self.times)
        times[-1] = 1.0
        return Plan(
            times=times,
            step_sizes=at(self.step_sizes.log()).exp(),
            scales=at(self.scales.log()).exp(),
            leapfrogs=LEAPFROGS,
        )


def survey(
    flow: Flow,
    target: CountedTarget,
    *,
    generator: torch.Generator,
    population: int = POPULATION,
    progress: Progress = silent,
) -> Course:
    """Send a pilot population from the flow to the target.

    Args:
        flow: The flow.
        target: The target; its ledger counts the energies and forces.
        generator: Random generator, on the device of the flow.
        population: Number of points.
        progress: Progress callback.

    Raises:
        InputError: The target has no gradient.
        RunError: No point has a finite weight.
    """
    density = path_density(flow, target)
    with torch.no_grad():
        state = hmc.init(flow.sample(population, generator=generator), density)
    log_weights = torch.zeros(population, dtype=torch.float64, device=flow.device)
    time, length, step_size = 0.0, 0.0, FIRST_STEP
    times, lengths, step_sizes, scales = [0.0], [0.0], [], []
    while time < 1.0:
        progress("pilot", round(100 * time), 100)
        log_ratio = (state.parts.log_p - state.parts.log_base).double()
        log_ratio = torch.where(log_ratio.isfinite(), log_ratio, -torch.inf)
        if not bool((log_ratio.isfinite() & log_weights.isfinite()).any()):
            raise RunError(f"none of {population} samples has a finite weight; does the flow belong to this target?")
        after = _next_time(time, log_ratio, log_weights) if len(times) < LONGEST else 1.0
        change = (after - time) * log_ratio
        length += math.sqrt(max(-math.log(conditional_size(log_weights, change)), 0.0))
        log_weights, time = log_weights + change, after
        if effective_fraction(log_weights) < UNEVEN:
            rows = torch.multinomial(normalised(log_weights), population, replacement=True, generator=generator)
            state = hmc.State(state.coordinates[rows], Parts(*(part[rows] for part in state.parts)))
            log_weights = torch.zeros_like(log_weights)
        scale = widths(combine(state.parts, _at(time)).gradient, flow)
        rounds = FIRST_ROUNDS if len(times) == 1 else ROUNDS
        state, step_size = _move(state, generator, density, time, scale, step_size, rounds)
        times.append(time)
        lengths.append(length)
        step_sizes.append(step_size)
        scales.append(scale[0].double().cpu())
    progress("pilot", 100, 100)
    return Course(
        times=torch.tensor(times, dtype=torch.float64),
        lengths=torch.tensor(lengths, dtype=torch.float64),
        # At the flow itself there are no trajectories; its neighbour stands in.
        step_sizes=torch.tensor([step_sizes[0], *step_sizes], dtype=torch.float64),
        scales=torch.stack([scales[0], *scales]),
    )


def conditional_size(log_weights: Float[Tensor, " points"], change: Float[Tensor, " points"]) -> float:
    """Conditional effective sample size, as a fraction, of a change of the log-weights of weighted points.

    It is that of the change alone under the weighted points: (sum W v)^2 / sum W v^2. For a normal change it is exp of
    minus its variance.

    Example:
        >>> conditional_size(torch.zeros(2), torch.tensor([0.0, -torch.inf]))
        0.5
    """
    weights = normalised(log_weights)
    values = (change - change.max()).exp()
    return float((weights * values).sum() ** 2 / (weights * values**2).sum())


def _next_time(time: float, log_ratio: Tensor, log_weights: Tensor) -> float:
    """Latest time at which the conditional effective sample size is at its bound, by bisection.

    Points where the target has no density are lost at any later time, and do not count.
    """
    kept = log_ratio.isfinite() & log_weights.isfinite()
    ratio, weights = log_ratio[kept], log_weights[kept]
    if conditional_size(weights, (1.0 - time) * ratio) >= CONDITIONAL:
        return 1.0
    # In the logarithm of the step, which may be 1e-8 where points of the flow clash.
    lower, upper = math.log(1e-12), math.log(1.0 - time)
    for _ in range(50):
        middle = 0.5 * (lower + upper)
        good = conditional_size(weights, math.exp(middle) * ratio) >= CONDITIONAL
        lower, upper = (middle, upper) if good else (lower, middle)
    return min(time + math.exp(lower), 1.0)


def widths(slope: Float[Tensor, "points dimensions"], flow: Flow) -> Float[Tensor, "1 dimensions"]:
    """Widths of the coordinates: the gradient of a normal log density has the inverse of its width."""
    steep = slope.nan_to_num(0.0).abs().median(0).values / NORMAL_MEDIAN
    return torch.minimum(1.0 / steep.clamp_min(1e-30), FREE * flow.length.to(steep))[None]


def _move(
    state: hmc.State,
    generator: torch.Generator,
    density: Density,
    time: float,
    scales: Tensor,
    step_size: float,
    rounds: int,
) -> tuple[hmc.State, float]:
    """Trajectories at one density, and the step size that their acceptance rates lead to."""
    with torch.no_grad():
        for _ in range(rounds):
            state, info = hmc.step(
                state,
                generator,
                density=density,
                scales=scales,
                step_size=step_size,
                leapfrogs=hmc.draw_leapfrogs(LEAPFROGS, generator),
                combination=_at(time),
            )
            step_size *= math.exp(GAIN * (float(info.acceptance.mean()) - WANTED))
    return state, step_size


def _at(time: float) -> Combination:
    return lambda log_q, log_p: ais.geometric(log_q, log_p, time)
