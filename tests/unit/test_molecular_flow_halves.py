"""The two halves of a molecular flow: their densities, parameters and samples."""

import pytest
import torch

from boltzport.core.layout import Layout
from molecular_flows import MIXED, draw, every_layout, new_flow, random_flow, seeded


@every_layout
def test_the_halves_add_up(layout: Layout) -> None:
    flow = random_flow(layout, seed=17)
    points, log_q = draw(flow, 100)
    torch.testing.assert_close(flow.torsion_log_prob(points) + flow.stiff_log_prob(points), log_q, rtol=0, atol=1e-8)
    assert sorted(flow.torsions.tolist() + flow.stiff.tolist()) == list(range(len(layout)))
    first, second = ({id(part) for part in half} for half in (flow.torsion_parameters, flow.stiff_parameters))
    assert not first & second
    assert first | second == {id(part) for part in flow.parameters()}
    unit = flow.unit
    for i, axis in enumerate(layout):
        expected = axis.upper - axis.lower if i in flow.torsions.tolist() else axis.width
        assert unit[i].item() == pytest.approx(expected)


def test_a_renewed_stiff_half_is_as_before_any_training() -> None:
    """And stays with its parameters, so that an optimiser goes on to move them; the torsions are what they were."""
    flow, other = random_flow(MIXED, seed=5), new_flow(MIXED)
    x, _ = draw(flow, 200)
    torsions, parameters = flow.torsion_log_prob(x), flow.stiff_parameters
    assert not torch.allclose(flow.stiff_log_prob(x), other.stiff_log_prob(x))
    flow.renew_stiff(generator=seeded(3))
    torch.testing.assert_close(flow.stiff_log_prob(x), other.stiff_log_prob(x))
    assert torch.equal(flow.torsion_log_prob(x), torsions)
    assert all(one is two for one, two in zip(parameters, flow.stiff_parameters, strict=True))
    # Other generators give other masks and weights.
    once, twice = flow.state_dict(), new_flow(MIXED)
    twice.renew_stiff(generator=seeded(4))
    assert any(
        not torch.equal(once[name], value) for name, value in twice.stiff_half.state_dict(prefix="stiff_half.").items()
    )


def test_each_half_has_its_own_parameters() -> None:
    flow = random_flow(MIXED, seed=18)
    points, _ = draw(flow, 10)
    for function, own, others in (
        (flow.torsion_log_prob, flow.torsion_parameters, flow.stiff_parameters),
        (flow.stiff_log_prob, flow.stiff_parameters, flow.torsion_parameters),
    ):
        found = torch.autograd.grad(function(points).sum(), own + others, allow_unused=True)
        assert all(part is not None and (part != 0).any() for part in found[: len(own)] if part is None or part.numel())
        assert all(part is None or (part == 0).all() for part in found[len(own) :])


@every_layout
def test_stiff_coordinates_are_drawn_given_the_torsions(layout: Layout) -> None:
    flow = random_flow(layout, seed=19)
    points, _ = draw(flow, 100)
    with torch.no_grad():
        drawn = flow.sample_stiff(points, generator=seeded(20))
        flow.chunk = 32
        parts = flow.sample_stiff(points, generator=seeded(20))
    assert parts.coordinates.shape == points.shape
    for found in (drawn, parts):
        assert torch.equal(found.coordinates[:, flow.torsions], points[:, flow.torsions])
        torch.testing.assert_close(flow.stiff_log_prob(found.coordinates), found.log_q, rtol=0, atol=1e-8)
    if len(flow.stiff):
        assert (drawn.coordinates[:, flow.stiff] != points[:, flow.stiff]).all()


def test_several_stiff_points_for_each_set_of_torsions() -> None:
    flow = random_flow(MIXED, seed=21)
    with torch.no_grad():
        drawn = flow.sample_by_halves(40, 5, generator=seeded(22))
    sets = drawn.coordinates.view(40, 5, len(MIXED))
    torsions, stiff = sets[..., flow.torsions], sets[..., flow.stiff]
    assert torch.equal(torsions, torsions[:, :1].expand_as(torsions))
    assert len(torsions[:, 0].unique(dim=0)) == 40
    assert (stiff[:, 1:] != stiff[:, :-1]).all()
    torch.testing.assert_close(flow.log_prob(drawn.coordinates), drawn.log_q, rtol=0, atol=1e-8)


@every_layout
def test_the_slope_that_comes_with_samples_is_that_of_the_density(layout: Layout) -> None:
    """And the samples are those of `sample_stiff`, with the same derivatives by the parameters."""
    flow = random_flow(layout, seed=11)
    points, _ = draw(flow, 40)
    found = flow.sample_stiff_with_slope(points, generator=seeded(5))
    held = found.coordinates.detach().requires_grad_()
    (expected,) = torch.autograd.grad(flow.stiff_log_prob(held).sum(), held, allow_unused=True)
    expected = torch.zeros_like(held) if expected is None else expected
    torch.testing.assert_close(found.slope, expected[:, flow.stiff], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(found.log_q, flow.stiff_log_prob(held).detach())
    plain = flow.sample_stiff(points, generator=seeded(5)).coordinates
    torch.testing.assert_close(found.coordinates, plain)
    # Given where they are, the same points as if they had been drawn.
    again = flow.stiff_with_slope(plain.detach())
    torch.testing.assert_close(again.coordinates, plain)
    torch.testing.assert_close(again.slope, found.slope, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(again.log_q, found.log_q)
    if flow.stiff_parameters:
        weights = torch.randn(plain.shape, dtype=plain.dtype, generator=seeded(6))
        theirs, *ours = (
            torch.autograd.grad((weights * each).sum(), flow.stiff_parameters)
            for each in (plain, found.coordinates, again.coordinates)
        )
        for gradients in ours:
            for one, other in zip(gradients, theirs, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
