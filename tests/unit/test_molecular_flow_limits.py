"""A molecular flow at the limits of its range and of floating point: no input gives NaN."""

import math

import pytest
import torch

from boltzport.core.layout import Layout
from boltzport.flows import MolecularConfig
from molecular_flows import MIXED, draw, every_layout, random_flow, seeded

STRANGE = [math.nan, math.inf, -math.inf, 1e30, -1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_layout
def test_no_input_gives_nan(layout: Layout, dtype: torch.dtype) -> None:
    flow = random_flow(layout, seed=14).to(dtype)
    good, _ = draw(flow, 1)
    rows = [good[0]]
    for i in range(len(layout)):
        for value in [*STRANGE, torch.finfo(dtype).max]:
            row = good[0].clone()
            row[i] = value
            rows.append(row)
    for value in STRANGE:
        rows.append(torch.full((len(layout),), value, dtype=dtype))
    points = torch.stack(rows).requires_grad_()
    for function in (flow.log_prob, flow.torsion_log_prob, flow.stiff_log_prob, flow.initial_log_prob):
        found = function(points)
        assert not found.isnan().any()
        assert found[0].isfinite()
        assert not found.isposinf().any()
        used, loss = (points, *flow.parameters()), found.nan_to_num(neginf=0.0).sum()
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, used, allow_unused=True)
            assert all(part.isfinite().all() for part in gradients if part is not None)
    log_q = flow.log_prob(points)
    (gradient,) = torch.autograd.grad(log_q.nan_to_num(neginf=0.0).sum(), points)
    assert log_q[~points.isfinite().all(1)].isneginf().all()
    assert (gradient[log_q.isneginf()] == 0).all()


def test_outside_the_range_of_an_interval_there_is_nothing_and_stiff_ones_have_no_range() -> None:
    flow = random_flow(MIXED, seed=15)
    points, _ = draw(flow, 3)
    points[0, 2] = 3.001
    points[1, 2] = -1.001
    points[2, 1] = 0.17
    points[2, 4] = 2.6
    assert flow.log_prob(points).isneginf().tolist() == [True, True, False]
    # The half of a turn that a handedness does not allow.
    points[2, 5] = -points[2, 5]
    assert flow.log_prob(points).isneginf().all()


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0])
def test_points_far_away_give_no_nan_in_float32(scale: float) -> None:
    """Nor a gradient that is not finite: couplings take what is far ever farther on the way to the base."""
    config = MolecularConfig(torsion_hidden=(32,), hidden=(32, 32))
    flow = random_flow(MIXED, seed=16, scale=scale, config=config).float()
    points, _ = draw(flow, 200)
    points = points[points.isfinite().all(1)]
    far = points.clone()
    signs = torch.randn(len(points), len(flow.stiff), generator=seeded(1)).sign()
    far[:, flow.stiff] = (flow.centre + 990 * signs * flow.width).float()
    used = torch.cat([points, far]).requires_grad_()
    log_q = flow.log_prob(used)
    assert not log_q.isnan().any()
    gradients = torch.autograd.grad(log_q.nan_to_num(neginf=0.0).sum(), (used, *flow.parameters()))
    assert all(part.isfinite().all() for part in gradients)
    assert (gradients[0][log_q.isneginf()] == 0).all()
