"""Hamiltonian Monte Carlo for many chains at once, with a scale for each coordinate.

R. Neal, MCMC using Hamiltonian dynamics, in Handbook of Markov Chain Monte Carlo (2011). In units of the scales the
mass is one: z' = s p, p' = s grad log density.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.mcmc.density import (
    Combination,
    Combined,
    Density,
    Parts,
    Points,
    Values,
    combine,
    log_density_of,
    target,
)

DIVERGED = 1000.0
"""Energy error, in kT, beyond which a trajectory counts as diverged."""


class State(NamedTuple):
    """Points of the chains, and the parts of the density there."""

    coordinates: Points
    parts: Parts


class Info(NamedTuple):
    """Result of a step.

    Attributes:
        acceptance: Acceptance probability of each chain.
        accepted: Whether each chain accepted.
        diverged: Whether the trajectory diverged, left the support, or reached a point that could not be evaluated.
        energy_error: Change of the Hamiltonian in kT; not finite outside the support.
    """

    acceptance: Values
    accepted: Bool[Tensor, " chains"]
    diverged: Bool[Tensor, " chains"]
    energy_error: Values


class Phase(NamedTuple):
    """Coordinates, momenta in units of the scales, and the parts of the density at the coordinates."""

    coordinates: Points
    momenta: Points
    parts: Parts


def init(coordinates: Points, density: Density) -> State:
    """Start chains at given points.

    Args:
        coordinates: Initial point of each chain.
        density: Density in its two parts.
    """
    return State(coordinates, density.exact_parts(coordinates))


def step(
    state: State,
    generator: torch.Generator,
    *,
    density: Density,
    scales: Float[Tensor, "#chains dimensions"],
    step_size: float | Float[Tensor, " chains"],
    leapfrogs: int,
    combination: Combination = target,
) -> tuple[State, Info]:
    """Run one trajectory per chain, with a Metropolis test.

    Args:
        state: Current chains.
        generator: Random generator for momenta and acceptances.
        density: Density in its two parts.
        scales: Typical width of each coordinate, common to all chains or per chain.
        step_size: Step size in units of the scales, common to all chains or per chain.
        leapfrogs: Number of leapfrog steps.
        combination: How the two parts are combined; may differ between chains.
    """
    x = state.coordinates
    momenta = torch.randn(x.shape, dtype=x.dtype, device=x.device, generator=generator)
    uniform = torch.rand(len(x), dtype=x.dtype, device=x.device, generator=generator)
    end = leapfrog(
        Phase(x, momenta, state.parts),
        density.parts,
        scales=scales,
        step_size=step_size,
        steps=leapfrogs,
        combination=combination,
    )
    parts = density.exact_parts(end.coordinates, end.parts)
    before, after = log_density_of(state.parts, combination), log_density_of(parts, combination)
    error = (before - after) + 0.5 * (end.momenta**2 - momenta**2).sum(1)
    # A chain that starts outside the support (minus infinity) accepts any point inside it.
    error = torch.where(after.isfinite() & ~before.isfinite(), -torch.inf, error)
    diverged = ~after.isfinite() | error.isnan() | (error > DIVERGED)
    acceptance = torch.where(diverged, 0.0, (-error).clamp(max=0.0).exp())
    accepted = uniform < acceptance
    return (
        choose(accepted, State(end.coordinates, parts), state),
        Info(acceptance, accepted, diverged, error),
    )


def leapfrog(
    start: Phase,
    parts: Callable[[Tensor], Parts],
    *,
    scales: Float[Tensor, "#chains dimensions"],
    step_size: float | Float[Tensor, " chains"],
    steps: int,
    combination: Combination = target,
) -> Phase:
    """The leapfrog integrator: reversible, volume preserving, with an energy error of second order.

    Args:
        start: Initial phase-space points.
        parts: Maps points to the parts of the density.
        scales: Typical width of each coordinate.
        step_size: Step size in units of the scales.
        steps: Number of steps.
        combination: How the two parts are combined.
    """
    epsilon = step_size[:, None] * scales if isinstance(step_size, Tensor) else step_size * scales
    coordinates, momenta, found = start
    momenta = momenta + 0.5 * epsilon * _slope(combine(found, combination))
    for number in range(1, steps + 1):
        coordinates = coordinates + epsilon * momenta
        found = parts(coordinates)
        kick = 1.0 if number < steps else 0.5
        momenta = momenta + kick * epsilon * _slope(combine(found, combination))
    return Phase(coordinates, momenta, found)


def draw_leapfrogs(mean: int, generator: torch.Generator) -> int:
    """Draw a number of steps between 0.5 and 1.5 times the mean: a fixed number can resonate with a period."""
    lower, upper = max(1, (mean + 1) // 2), mean + mean // 2
    return int(torch.randint(lower, max(lower, upper) + 1, (1,), generator=generator, device=generator.device))


def choose(mask: Bool[Tensor, " chains"], first: State, second: State) -> State:
    """Take the chains of the first state where the mask is true, else those of the second."""

    def pick(one: Tensor, other: Tensor) -> Tensor:
        return torch.where(mask if one.ndim == 1 else mask[:, None], one, other)

    parts = Parts(*(pick(one, other) for one, other in zip(first.parts, second.parts, strict=True)))
    return State(pick(first.coordinates, second.coordinates), parts)


def _slope(combined: Combined) -> Tensor:
    # A gradient that cannot be evaluated must not spread NaN to the point of the next evaluation; the end of such a
    # trajectory is judged by its density.
    return torch.nan_to_num(combined.gradient, nan=0.0, posinf=0.0, neginf=0.0)
