"""Independent proposals leave a density unchanged, whatever the proposal is."""

import math

import torch
from torch import Tensor

from boltzport.mcmc import Density, hmc, independence, plain

CHAINS = 40_000


def two_modes(x: Tensor) -> Tensor:
    """Modes at -2 and 3 with weights 0.7 and 0.3 and widths 0.5 and 1, not normalised."""
    first = math.log(0.7 / 0.5) - 0.5 * ((x[:, 0] + 2) / 0.5) ** 2
    second = math.log(0.3) - 0.5 * (x[:, 0] - 3) ** 2
    return torch.logaddexp(first, second) + 5.0


def broad() -> independence.Proposal:
    """A normal density about 1, whose modes have other weights; its constant is left out."""

    def draw(n: int, generator: torch.Generator) -> independence.Proposed:
        x = 1.0 + 3.0 * torch.randn(n, 1, dtype=torch.float64, generator=generator)
        return independence.Proposed(x, log_prob(x))

    def log_prob(x: Tensor) -> Tensor:
        return -0.5 * ((x[:, 0] - 1.0) / 3.0) ** 2

    return independence.Proposal(draw, log_prob)


def run(start: Tensor, density: Density, proposal: independence.Proposal, steps: int) -> tuple[hmc.State, float]:
    generator = torch.Generator().manual_seed(0)
    state, acceptance = hmc.init(start, density), 0.0
    for _ in range(steps):
        state, info = independence.step(state, generator, density=density, proposal=proposal)
        acceptance += float(info.acceptance.mean()) / steps
    return state, acceptance


def test_chains_reach_both_modes_with_their_weights() -> None:
    """All start in one mode, with the other far away."""
    state, acceptance = run(torch.full((CHAINS, 1), -2.0, dtype=torch.float64), plain(two_modes), broad(), 60)
    right = (state.coordinates[:, 0] > 0.5).double()
    assert abs(float(right.mean()) - 0.3) < 5 * math.sqrt(0.21 / CHAINS)
    left = state.coordinates[state.coordinates[:, 0] < 0.5, 0]
    assert abs(float(left.mean()) + 2.0) < 5 * 0.5 / math.sqrt(len(left))
    assert abs(float(left.std()) - 0.5) < 0.02
    assert 0.1 < acceptance < 0.6
    torch.testing.assert_close(state.parts.log_p, two_modes(state.coordinates))


def test_a_chain_where_the_proposal_has_no_density_stays() -> None:
    def half(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 0, -0.5 * (x[:, 0] / 3.0) ** 2, -torch.inf)

    def draw(n: int, generator: torch.Generator) -> independence.Proposed:
        x = (3.0 * torch.randn(n, 1, dtype=torch.float64, generator=generator)).abs()
        return independence.Proposed(x, half(x))

    start = torch.tensor([[-2.0], [3.0]], dtype=torch.float64).repeat(100, 1)
    state, _ = run(start, plain(two_modes), independence.Proposal(draw, half), 20)
    assert bool((state.coordinates[0::2] == -2.0).all())
    assert not bool((state.coordinates[1::2] == 3.0).all())


def test_a_proposal_that_is_the_density_is_always_accepted() -> None:
    def draw(n: int, generator: torch.Generator) -> independence.Proposed:
        x = torch.randn(n, 2, dtype=torch.float64, generator=generator)
        return independence.Proposed(x, log_prob(x))

    def log_prob(x: Tensor) -> Tensor:
        return -0.5 * (x * x).sum(1)

    density = plain(lambda x: log_prob(x) + 3.0)
    _, acceptance = run(torch.zeros(100, 2, dtype=torch.float64), density, independence.Proposal(draw, log_prob), 5)
    assert acceptance > 1.0 - 1e-12
