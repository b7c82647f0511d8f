"""Chains at the density of a step: where they start, what leaves the density as it is, what takes them elsewhere."""

import copy
import math

import pytest
import torch
from torch import Tensor

from boltzport.core.weights import normalised
from boltzport.training.methods.cmt.chains import Chains
from molecular_flows import seeded
from trainings import quiet

PARTS = ((0.8, -3.0, 0.4), (0.2, 2.0, 0.7))
"""Weight, place and width of the two modes of the first coordinate; hardly a chain goes from one to the other."""
SLOPE, NARROW = 0.6, 0.05
WIDEST = torch.tensor([1.0, 1.0], dtype=torch.float64)


def log_density(x: Tensor) -> Tensor:
    """Two modes, and a narrow coordinate whose mean follows the first one."""
    modes = [math.log(part / width) - 0.5 * ((x[:, 0] - place) / width) ** 2 for part, place, width in PARTS]
    narrow = -0.5 * ((x[:, 1] - SLOPE * x[:, 0]) / NARROW) ** 2
    return torch.logsumexp(torch.stack(modes), 0) + narrow + 11.0


def exact(n: int, seed: int, *, first: float = PARTS[0][0]) -> Tensor:
    """Samples, with another weight of the first mode where it is given."""
    generator = seeded(seed)
    chosen = (torch.rand(n, generator=generator) >= first).long()
    places, widths = (torch.tensor([part[k] for part in PARTS], dtype=torch.float64) for k in (1, 2))
    x = places[chosen] + widths[chosen] * torch.randn(n, dtype=torch.float64, generator=generator)
    return torch.stack([x, SLOPE * x + NARROW * torch.randn(n, dtype=torch.float64, generator=generator)], 1)


def new_chains(points: Tensor, *, leapfrogs: int = 6, seed: int = 0) -> Chains:
    chains = Chains(len(points), leapfrogs=leapfrogs, widest=WIDEST)
    chains.gather(points, torch.zeros(len(points)), log_density, generator=seeded(seed))
    return chains


def in_first_mode(chains: Chains) -> Tensor:
    return chains.points.coordinates[:, 0] < 0


def test_chains_start_at_points_drawn_by_their_weights() -> None:
    points = exact(20_000, 1)
    log_weights = 0.5 * points[:, 0] + 40.0
    chains = Chains(30_000, leapfrogs=5, widest=WIDEST)
    assert chains.size == 0
    chains.gather(points, log_weights, log_density, generator=seeded(2))
    assert chains.size == 30_000
    expected = (normalised(log_weights)[:, None] * points).sum(0)
    torch.testing.assert_close(chains.points.coordinates.mean(0), expected, rtol=0, atol=0.06)
    held = chains.points.coordinates.clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_density(held).sum(), held)
    torch.testing.assert_close(chains.points.slope, slope)


def test_a_single_heavy_point_does_not_take_all_chains() -> None:
    points, log_weights = exact(1000, 3), torch.zeros(1000)
    log_weights[7] = math.log(500.0)
    chains = Chains(1000, leapfrogs=5, widest=WIDEST)
    chains.gather(points, log_weights, log_density, generator=seeded(4))
    assert (chains.points.coordinates == points[7]).all(1).sum() < 150


def test_trajectories_leave_the_density_as_it_is() -> None:
    chains = new_chains(exact(6000, 5), seed=1)
    start, generator = chains.points.coordinates.clone(), seeded(6)
    acceptances = [chains.move(log_density, generator=generator, progress=quiet) for _ in range(60)]
    # The step size grows to what is asked for.
    assert acceptances[0] > 0.98
    assert 0.75 < acceptances[-1] < 0.93
    moved = chains.points.coordinates
    for (_, place, width), mode in zip(PARTS, (in_first_mode(chains), ~in_first_mode(chains)), strict=True):
        x, narrow = moved[mode, 0], (moved[mode, 1] - SLOPE * moved[mode, 0]) / NARROW
        assert float(x.mean()) == pytest.approx(place, abs=5 * width / math.sqrt(len(x)))
        assert float(x.std()) == pytest.approx(width, rel=5 / math.sqrt(2 * len(x)))
        assert abs(float(narrow.mean())) < 5 / math.sqrt(len(x))
        assert float(narrow.std()) == pytest.approx(1.0, rel=5 / math.sqrt(2 * len(x)))
    # Hardly any has gone to the other mode, and all have forgotten where in theirs they began.
    first = in_first_mode(chains)
    assert float((first != (start[:, 0] < 0)).double().mean()) < 0.02
    before, after = (values[first, 0] - values[first, 0].mean() for values in (start, moved))
    assert abs(float((before * after).mean())) < 0.1 * PARTS[0][2] ** 2


def test_trajectories_bring_chains_to_the_density() -> None:
    points = exact(6000, 7)
    points[:, 1] += 0.1
    chains, generator = new_chains(points), seeded(8)
    for _ in range(12):
        chains.move(log_density, generator=generator, progress=quiet)
    narrow = (chains.points.coordinates[:, 1] - SLOPE * chains.points.coordinates[:, 0]) / NARROW
    assert abs(float(narrow.mean())) < 0.08
    assert float(narrow.std()) == pytest.approx(1.0, abs=0.05)


def proposal_log_q(x: Tensor) -> Tensor:
    """A normal density that is far too wide, and not centred."""
    first = -0.5 * ((x[:, 0] + 0.3) / 3.5) ** 2 - math.log(3.5)
    return first - 0.5 * ((x[:, 1] - SLOPE * x[:, 0]) / (1.5 * NARROW)) ** 2 - math.log(1.5 * NARROW)


def proposals(n: int, generator: torch.Generator) -> Tensor:
    x = -0.3 + 3.5 * torch.randn(n, dtype=torch.float64, generator=generator)
    other = SLOPE * x + 1.5 * NARROW * torch.randn(n, dtype=torch.float64, generator=generator)
    return torch.stack([x, other], 1)


def test_proposals_take_chains_to_the_modes_in_their_shares() -> None:
    chains, generator = new_chains(exact(8000, 9, first=0.1)), seeded(10)
    assert float(in_first_mode(chains).double().mean()) < 0.12
    for _ in range(60):
        # Fewer proposals than chains: each goes to another chain.
        points = proposals(6000, generator)
        log_weights = log_density(points) - proposal_log_q(points)
        found = chains.propose(points, log_weights, proposal_log_q, log_density, generator=generator)
        assert 0.05 < found < 0.5
    part = float(in_first_mode(chains).double().mean())
    assert part == pytest.approx(PARTS[0][0], abs=5 * math.sqrt(0.16 / 8000))
    held = chains.points.coordinates.clone().requires_grad_()
    (slope,) = torch.autograd.grad(log_density(held).sum(), held)
    torch.testing.assert_close(chains.points.slope, slope)


def test_points_without_a_density_are_not_gone_to() -> None:
    def cut(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > -3.0, torch.nan, log_density(x))

    points = exact(2000, 11)
    points = points[points[:, 0] < -3.0]
    chains = Chains(1000, leapfrogs=5, widest=WIDEST)
    generator = seeded(12)
    chains.gather(points, torch.zeros(len(points)), cut, generator=generator)
    for _ in range(5):
        fresh = exact(1000, 13)
        log_weights = cut(fresh) - proposal_log_q(fresh)
        chains.propose(fresh, log_weights, proposal_log_q, cut, generator=generator)
        chains.move(cut, generator=generator, progress=quiet)
    assert (chains.points.coordinates[:, 0] <= -3.0).all()
    assert chains.points.slope.isfinite().all()


def test_restored_chains_go_on_bit_for_bit() -> None:
    chains, generator = new_chains(exact(500, 14)), seeded(15)
    chains.move(log_density, generator=generator, progress=quiet)
    saved, random_state = copy.deepcopy(chains.save()), generator.get_state()
    other, other_generator = Chains(500, leapfrogs=6, widest=WIDEST), torch.Generator()
    other.restore(saved)
    other_generator.set_state(random_state)
    found = [
        each.move(log_density, generator=g, progress=quiet)
        for each, g in ((chains, generator), (other, other_generator))
    ]
    assert found[0] == found[1]
    assert all(map(torch.equal, chains.points, other.points))
