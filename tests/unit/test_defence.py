"""Broader versions of flows: their density is that of their points, and it bounds the weights of the flow."""

import copy
import math

import pytest
import torch

from bad_flows import gaussian_flow
from boltzport.analysis.metrics import Estimate, Results, default_defence
from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.flows import (
    CouplingConfig,
    Flow,
    MixedFlow,
    MolecularConfig,
    MovedFlow,
    broadened,
    build_flow,
    defended,
    draw,
)
from boltzport.targets import CountedTarget, Density, Purpose

LAYOUT = Layout(
    [
        circle(-1.0, 2 * torch.pi - 1.0),
        interval(-2.0, 4.0, centre=0.5, width=0.4),
        circle(),
        interval(-3.0, 3.0, centre=0.2, width=0.5),
        interval(-3.0, 3.0, centre=-0.1, width=0.3),
    ]
)
CONFIGS = {
    "couplings": CouplingConfig(pairs=1, bins=4, hidden=(8,)),
    "molecular": MolecularConfig(bins=6, harmonics=1, torsion_hidden=(8,), pairs=1, hidden=(8,)),
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def moved_flow(kind: str) -> Flow:
    """A flow with random weights, in double precision."""
    flow = build_flow(LAYOUT, CONFIGS[kind], generator=seeded(1), compiled=False).double()
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, dtype=torch.float64, generator=seeded(2)))
    return flow


def box(n: int) -> tuple[torch.Tensor, float]:
    """Uniform points of a box that holds nearly all of the density, and the log of its volume."""
    lower = torch.tensor([-1.0, -2.5, -torch.pi, -3.5, -2.5], dtype=torch.float64)
    upper = torch.tensor([2 * torch.pi - 1.0, 3.5, torch.pi, 4.0, 2.5], dtype=torch.float64)
    uniform = torch.rand(n, 5, dtype=torch.float64, generator=seeded(3))
    return lower + (upper - lower) * uniform, float((upper - lower).log().sum())


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_a_broader_flow_is_normalised_and_draws_what_its_density_says(kind: str) -> None:
    flow = moved_flow(kind)
    broad = broadened(flow)
    points, log_volume = box(400_000)
    with torch.no_grad():
        log_prob = broad.log_prob(points)
        mean = log_mean(log_prob + log_volume)
        assert abs(mean.value) < 4 * mean.error
        assert mean.error < 0.03
        # Moments of its samples are those of its density.
        drawn, log_q = broad.sample_and_log_prob(60_000, generator=seeded(4))
        torch.testing.assert_close(log_q, broad.log_prob(drawn))
    for function in (lambda x: x[:, 1], lambda x: (x[:, 3] - x[:, 4]) ** 2, lambda x: (x[:, 0] + x[:, 2]).cos()):
        values = (log_prob + log_volume).exp() * function(points)
        sampled = function(drawn)
        error = (values.var() / len(values) + sampled.var() / len(sampled)).sqrt()
        assert abs(float((values.mean() - sampled.mean()) / error)) < 4.0


def test_a_broader_molecular_flow_has_density_where_the_flow_is_thin() -> None:
    flow = moved_flow("molecular")
    broad = broadened(flow)
    with torch.no_grad():
        drawn, log_q = flow.sample_and_log_prob(4000, generator=seeded(5))
        log_broad = broad.log_prob(drawn)
        # Never lower by more than what broadening costs; never thin in one torsion alone.
        assert float((log_q - log_broad).max()) < 4.0
        turned = drawn.clone()
        turned[:, 0] = 2 * torch.pi * torch.rand(4000, dtype=torch.float64, generator=seeded(6)) - 1.0
        lost, kept = flow.log_prob(turned), broad.log_prob(turned)
    assert float((kept - lost).quantile(0.99)) > float((kept - lost).quantile(0.5)) > -4.0


def test_defence_bounds_the_weights_and_keeps_them_exact() -> None:
    """A flow that is too narrow: its weights grow without bound, those of the defended one do not."""
    layout = Layout([interval(-8.0, 8.0, centre=0.0, width=1.5), interval(-8.0, 8.0, centre=0.0, width=1.5)])
    target = CountedTarget(Density(lambda x: -0.5 * ((x - 0.5) ** 2).sum(1) / 1.44, layout))
    narrow = MixedFlow([gaussian_flow(layout, [0.5, 0.5], [0.7, 0.7])])
    base = build_flow(layout, CONFIGS["couplings"], generator=seeded(1), compiled=False).double()
    guarded = MixedFlow([narrow.flows[0], broadened(base)], [0.95, 0.05])

    def weights(flow: Flow) -> torch.Tensor:
        (drawn,) = draw(flow, target, 50_000, batch=50_000, generator=seeded(7), purpose=Purpose.EVALUATION)
        return drawn.log_weights

    exact = float(torch.log(torch.tensor(2 * torch.pi * 1.44)))
    found = log_mean(weights(guarded))
    assert abs(found.value - exact) < 3.5 * found.error
    assert float(weights(guarded).max()) < exact + 4.0 < float(weights(narrow).max())
    assert effective_fraction(weights(guarded)) > 2 * effective_fraction(weights(narrow))


def test_flows_are_broadened_in_mixtures_and_other_coordinates() -> None:
    flow = moved_flow("molecular")
    log_det = -5 * math.log(2.0)
    halved = MovedFlow(flow, LAYOUT, forward=lambda x: 0.5 * x, backward=lambda x: 2.0 * x, log_det=log_det)
    points = flow.sample(20, generator=seeded(8)).detach()
    with torch.no_grad():
        torch.testing.assert_close(broadened(halved).log_prob(0.5 * points), broadened(flow).log_prob(points) - log_det)
        mixed = broadened(MixedFlow([flow, copy.deepcopy(flow)], [0.3, 0.7]))
        torch.testing.assert_close(mixed.log_prob(points), broadened(flow).log_prob(points))
        guarded = defended(flow, 0.05)
        torch.testing.assert_close(
            guarded.log_prob(points),
            (0.95 * flow.log_prob(points).exp() + 0.05 * broadened(flow).log_prob(points).exp()).log(),
        )
    assert defended(flow, 0.0) is flow


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_out_of_range_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="defensive: expected a share of at least 0 and below 1"):
        defended(moved_flow("couplings"), share)


def test_a_flow_without_a_broader_version_is_refused() -> None:
    with pytest.raises(InputError, match="defensive: expected a molecular or coupling flow"):
        broadened(gaussian_flow(LAYOUT, [0.0] * 5, [1.0] * 5))


@pytest.mark.parametrize(("pareto_k", "share"), [(0.69, 0.0), (0.71, 0.05), (None, 0.0)])
def test_defence_is_on_where_the_tail_is_heavy(pareto_k: float | None, share: float) -> None:
    assert default_defence(Results([Estimate(name="pareto_k", value=pareto_k)])) == share
    assert default_defence(None) == 0.0
