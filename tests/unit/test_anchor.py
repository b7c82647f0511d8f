"""Anchors, against the definition of the divergence that they descend."""

import math

import pytest
import torch
from torch import Tensor

from boltzport.targets import CountedTarget, Density
from boltzport.training.anchor import anchor_loss, draw_anchors
from gradients import LAYOUT, flat, log_density, random_flow
from trainings import quiet


def proposals(*seeds: int) -> list[dict[str, Tensor]]:
    return [random_flow(seed).state_dict() for seed in seeds]


def test_the_mixture_has_equal_parts_and_finds_log_z() -> None:
    target = CountedTarget(Density(lambda x: log_density(x) + 7.0, LAYOUT))
    found = draw_anchors(
        random_flow(0), proposals(1, 2, 3), target, 3000, generator=torch.Generator().manual_seed(0), progress=quiet
    )
    assert found.coordinates.shape == (3000, 3)
    assert target.ledger["training"] == 3000
    with torch.no_grad():
        each = torch.stack([random_flow(seed).log_prob(found.coordinates).exp() for seed in (1, 2, 3)])
    torch.testing.assert_close(found.log_r.exp(), each.mean(0), rtol=1e-6, atol=1e-12)
    # The constant that was added is gone, and the target is normalised over the points.
    assert float((found.log_p - found.log_r).exp().mean()) == pytest.approx(1.0, rel=1e-6)
    shift = (found.log_p - log_density(found.coordinates)).unique()
    assert float(shift.max() - shift.min()) < 1e-9
    # Exactly: a Gaussian for each of two coordinates, a Bessel function for the angle; the ends of the box are far.
    bessel = float(torch.special.i0(torch.tensor(0.6)))
    exact = math.log(0.9 * 2 * math.pi * 2 * math.pi * bessel)
    assert -float(shift.mean()) == pytest.approx(exact, abs=0.05)


def test_gradient_is_that_of_the_inverse_effective_fraction() -> None:
    """Against differences of E_p[p / q] on points of the target, by a step along the gradient."""
    flow, other = random_flow(1, size=0.05), random_flow(2, size=0.05)
    target = CountedTarget(Density(other.log_prob, LAYOUT))
    anchors = draw_anchors(
        flow,
        [flow.state_dict(), other.state_dict()],
        target,
        200_000,
        generator=torch.Generator().manual_seed(0),
        progress=quiet,
    )
    parameters = list(flow.parameters())
    found = []
    for seed in range(10):
        loss = anchor_loss(flow, anchors, 20_000, generator=torch.Generator().manual_seed(seed))
        found.append(flat(torch.autograd.grad(loss, parameters)))
    gradient = torch.stack(found).mean(0)
    with torch.no_grad():
        points = other.sample(200_000, generator=torch.Generator().manual_seed(3))
        log_p = other.log_prob(points)
    inverse = (log_p - flow.log_prob(points)).exp().mean()
    exact = flat(torch.autograd.grad(inverse, parameters))
    cosine = float((gradient * exact).sum() / gradient.norm() / exact.norm())
    assert cosine > 0.97
    assert float(gradient.norm() / exact.norm()) == pytest.approx(1.0, abs=0.12)


def test_no_noise_where_the_flow_is_the_target() -> None:
    flow, frozen = random_flow(2), random_flow(2)
    target = CountedTarget(Density(lambda x: frozen.log_prob(x) - 3.0, LAYOUT))
    generator = torch.Generator().manual_seed(0)
    anchors = draw_anchors(flow, proposals(2, 5), target, 20_000, generator=generator, progress=quiet)
    # The constant is as the points have it: off by their noise, which is all that is left.
    off = abs(float(anchors.log_p.mean() - frozen.log_prob(anchors.coordinates).detach().mean()))
    loss = anchor_loss(flow, anchors, 500, generator=generator)
    plain = -flow.log_prob(anchors.coordinates[:500]).mean()
    noise, scale = (flat(torch.autograd.grad(value, list(flow.parameters()))).norm() for value in (loss, plain))
    assert off < 0.02
    assert float(noise) < 0.1 * float(scale)


def test_points_that_fail_are_left_out() -> None:
    def failing(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 1.0, torch.nan * x[:, 0], log_density(x))

    target = CountedTarget(Density(failing, LAYOUT))
    generator = torch.Generator().manual_seed(0)
    anchors = draw_anchors(random_flow(0), proposals(1), target, 1000, generator=generator, progress=quiet)
    assert 0 < len(anchors.log_p) < 1000
    assert float(anchors.coordinates[:, 0].max()) <= 1.0
    assert anchor_loss(random_flow(3), anchors, 200, generator=generator).isfinite()
