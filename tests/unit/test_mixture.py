"""Mixtures of flows: their density, their weights, their shares, and whom they refuse."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bad_flows import Normals, gaussian_flow
from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.ensembles import optimal_shares, with_optimal_shares
from boltzport.experiments import load, load_mixture, mix
from boltzport.flows import Flow, MixedFlow, MovedFlow, draw
from boltzport.targets import CountedTarget, GaussianMixture, Purpose

LAYOUT = Layout([interval(-30.0, 30.0), interval(-30.0, 30.0)])
TARGET = GaussianMixture(
    "three",
    LAYOUT,
    weights=torch.tensor([0.6, 0.25, 0.15]),
    means=torch.tensor([[-4.0, 1.0], [3.0, 2.0], [0.0, -5.0]]),
    factors=torch.tensor([[[0.8, 0.0], [0.5, 0.6]], [[1.0, 0.0], [0.0, 0.7]], [[0.5, 0.0], [0.2, 1.1]]]),
)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def members() -> list[Normals]:
    """Each knows one or two modes, badly."""
    return [
        gaussian_flow(LAYOUT, [-3.6, 0.8], [1.3, 1.5]),
        gaussian_flow(LAYOUT, [2.5, 2.2], [1.6, 1.2]),
        gaussian_flow(LAYOUT, [0.5, -3.0], [2.5, 3.0]),
    ]


def weights_of(flow: Flow, n: int, seed: int) -> torch.Tensor:
    drawn = draw(flow, CountedTarget(TARGET), n, batch=5000, generator=seeded(seed), purpose=Purpose.EVALUATION)
    return torch.cat([part.log_weights for part in drawn])


def test_the_density_is_the_mean_of_the_members_by_their_shares() -> None:
    flows, shares = members(), [0.2, 0.5, 0.3]
    mixed = MixedFlow(flows, shares)
    points = 4 * torch.randn(50, 2, dtype=torch.float64, generator=seeded(1))
    expected = sum(share * flow.log_prob(points).exp() for share, flow in zip(shares, flows, strict=True))
    torch.testing.assert_close(mixed.log_prob(points).exp(), expected)
    drawn, log_q = mixed.sample_and_log_prob(40_000, generator=seeded(2))
    torch.testing.assert_close(log_q, mixed.log_prob(drawn))
    mean = sum(share * flow.means[:, 0] for share, flow in zip(shares, flows, strict=True))
    np.testing.assert_allclose(drawn.mean(0), mean, atol=0.06)


def test_weights_are_exact_and_no_worse_than_the_mean_of_the_members() -> None:
    mixed = MixedFlow(members(), [1 / 3, 1 / 3, 1 / 3])
    log_weights = weights_of(mixed, 40_000, 3)
    found = log_mean(log_weights)
    assert abs(found.value) < 3.5 * found.error
    # Points of one member, as if it alone had been drawn, are another and wrong estimate.
    assert abs(log_mean(weights_of(members()[0], 40_000, 3)).value) > 0.2
    # Chi-square by exact sampling of the target: E_p[p / q] - 1; a single member may not cover the target at all.
    points = TARGET.sample(20_000, generator=seeded(4))
    of_mixture = (TARGET.log_density(points) - mixed.log_prob(points)).exp().mean()
    of_members = [(TARGET.log_density(points) - flow.log_prob(points)).exp().mean() for flow in members()]
    assert float(of_mixture) < float(sum(of_members) / 3)
    assert 1 / effective_fraction(log_weights) == pytest.approx(float(of_mixture), rel=0.1)


def test_optimal_shares_satisfy_the_conditions_of_a_minimum() -> None:
    flows, smallest = members(), 0.3
    points, log_drawn = MixedFlow(flows).sample_and_log_prob(4000, generator=seeded(5))
    log_members = MixedFlow(flows).log_probs(points)
    log_p = TARGET.log_density(points)
    shares = optimal_shares(log_members, log_p, log_drawn, smallest=smallest)
    assert float(shares.sum()) == pytest.approx(1.0)
    log_q = torch.logsumexp(log_members + shares.log(), 1)
    gradient = (2 * log_p[:, None] + log_members - 2 * log_q[:, None] - log_drawn[:, None]).exp().mean(0)
    bound = shares < 0.1 + 1e-4
    free = gradient[~bound]
    assert float(free.max() / free.min()) < 1.001
    assert bool((gradient[bound] < free.min()).all())

    def chi_square(at: torch.Tensor) -> float:
        return float((2 * log_p - torch.logsumexp(log_members + at.log(), 1) - log_drawn).exp().mean())

    for towards in torch.eye(3, dtype=torch.float64):
        assert chi_square(shares) <= chi_square(0.97 * shares + 0.03 * (0.1 + 0.7 * towards)) + 1e-9


def test_a_useless_member_keeps_its_smallest_share() -> None:
    useless = gaussian_flow(LAYOUT, [25.0, 25.0], [0.5, 0.5])
    target = CountedTarget(TARGET)
    mixed = with_optimal_shares(MixedFlow([*members(), useless]), target, generator=seeded(6))
    assert mixed.shares[3] == pytest.approx(0.025, rel=1e-3)
    assert sum(mixed.shares) == pytest.approx(1.0)
    assert target.ledger["evaluation"] == target.ledger.total == 4096
    better, equal = (
        effective_fraction(weights_of(flow, 20_000, 7)) for flow in (mixed, MixedFlow([*members(), useless]))
    )
    assert better > equal


@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.5, 0.5, 0.1], [1.2, -0.1, -0.1], [1.0, 0.0, 0.0]])
def test_shares_that_are_not_probabilities_are_refused(shares: list[float]) -> None:
    with pytest.raises(InputError, match="shares: expected 3 positive numbers that sum to 1, got"):
        MixedFlow(members(), shares)


def test_a_moved_flow_has_the_density_of_moved_points() -> None:
    matrix = torch.tensor([[1.5, 0.4], [-0.3, 0.8]], dtype=torch.float64)
    inner = gaussian_flow(LAYOUT, [1.0, -2.0], [0.7, 1.1])
    moved = MovedFlow(
        inner,
        LAYOUT,
        forward=lambda x: x @ matrix.T,
        backward=lambda x: torch.linalg.solve(matrix, x.T).T,
        log_det=float(torch.linalg.slogdet(matrix).logabsdet),
    )
    points, log_q = moved.sample_and_log_prob(20_000, generator=seeded(8))
    torch.testing.assert_close(moved.log_prob(points), log_q)
    exact = torch.distributions.MultivariateNormal(
        matrix @ inner.means[:, 0], matrix @ torch.diag(inner.widths[:, 0] ** 2) @ matrix.T
    )
    torch.testing.assert_close(log_q, exact.log_prob(points))
    np.testing.assert_allclose(points.mean(0), exact.mean, atol=0.05)


def test_runs_of_another_target_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="tetrapeptide is a run of alanine-tetrapeptide; expected another run of "):
        load_mixture(["alanine-dipeptide", "alanine-tetrapeptide"])
    with pytest.raises(InputError, match="no such run: nowhere"):
        load_mixture(["alanine-dipeptide", "nowhere"])
    with pytest.raises(InputError, match="expected a run directory"):
        load_mixture([])


@pytest.mark.slow
def test_two_flows_of_a_molecule_in_memory_and_from_files(tmp_path: Path) -> None:
    first = load("alanine-dipeptide")
    other = copy.copy(first)
    other.flow = copy.deepcopy(first.flow)
    with torch.no_grad():
        for parameter in other.flow.parameters():
            parameter.mul_(0.97)
    with pytest.raises(InputError, match="shares: expected auto, equal or numbers"):
        mix(first, other, shares="even")
    mixed = mix(first, other, shares="equal")
    single, both = other.sample(1500, seed=1), mixed.sample(1500, seed=1)
    assert single.ess < both.ess
    assert abs(both.log_z + 178.685) < 5 * both.log_z_error + 0.005
    assert mixed.cost.target_evaluations == 2 * first.cost.target_evaluations
    with pytest.raises(InputError, match="a mixture has no file of its own"):
        mixed.save(tmp_path / "mixed")
    other.directory = None
    other.save(tmp_path / "other")
    loaded = load_mixture([tmp_path / "other", "alanine-dipeptide"])
    assert isinstance(loaded.flow, MixedFlow)
    assert loaded.flow.shares[1] > loaded.flow.shares[0] > 0.04
    assert loaded.sample(1500, seed=2).ess > 0.9
    results = loaded.evaluate(n=400, transport_samples=50)
    assert results["ess"].value > 0.8
    assert loaded.report(tmp_path / "page.html").stat().st_size > 10_000
    hotter = copy.copy(first)
    hotter.config = replace(first.config, molecule=replace(first.config.molecule, temperature=350.0))
    with pytest.raises(InputError, match=r"model 2 is a run of alanine-dipeptide with temperature 350.0; expected"):
        mix(first, hotter)
