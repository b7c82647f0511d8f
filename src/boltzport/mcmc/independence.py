"""Independence Metropolis: proposals that do not depend on the state of the chain.

L. Tierney, Markov chains for exploring posterior distributions, Annals of Statistics 22 (1994). A proposal x' is
accepted with probability min(1, w(x') / w(x)), w = density / proposal: a good proposal moves a chain from one mode to
another in one step.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from boltzport.mcmc import hmc
from boltzport.mcmc.density import Combination, Density, Points, Values, log_density_of, target


class Proposed(NamedTuple):
    """Points drawn from the proposal, and their log density."""

    coordinates: Points
    log_q: Values


class Proposal(NamedTuple):
    """A proposal density that can be sampled.

    Attributes:
        draw: Draws a given number of points.
        log_prob: Log density at points, normalised or not.
    """

    draw: Callable[[int, torch.Generator], Proposed]
    log_prob: Callable[[Tensor], Tensor]


class Info(NamedTuple):
    """Acceptance probability of each chain."""

    acceptance: Values


def step(
    state: hmc.State,
    generator: torch.Generator,
    *,
    density: Density,
    proposal: Proposal,
    combination: Combination = target,
) -> tuple[hmc.State, Info]:
    """Make one proposal per chain, with a Metropolis test.

    Args:
        state: Current chains.
        generator: Random generator for proposals and acceptances.
        density: Density in its two parts.
        proposal: Proposal density.
        combination: How the two parts are combined.
    """
    drawn = proposal.draw(len(state.coordinates), generator)
    there = drawn.coordinates.to(state.coordinates.dtype)
    parts = density.exact_parts(there)
    after = log_density_of(parts, combination) - drawn.log_q
    before = log_density_of(state.parts, combination) - proposal.log_prob(state.coordinates)
    uniform = torch.rand(len(there), dtype=torch.float64, device=there.device, generator=generator)
    # A chain where the proposal has no density (before is infinite) stays: the reverse move is impossible.
    acceptance = (after - before).nan_to_num(nan=-torch.inf).clamp(max=0.0).exp()
    moved = hmc.choose(uniform < acceptance, hmc.State(there, parts), state)
    return moved, Info(acceptance)
