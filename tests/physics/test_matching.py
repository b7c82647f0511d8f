"""Matching local coordinates to another description: exact for normal densities, and a gain on a molecule."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.weights import effective_fraction
from boltzport.experiments import Changes, load
from boltzport.experiments.matching import match
from boltzport.experiments.redescribe import redescribed
from boltzport.flows import draw
from boltzport.targets import Purpose
from boltzport.targets.boltzmann import HarmonicMap, matched, nearest_normal


def spread(n: int, generator: torch.Generator) -> Tensor:
    """A symmetric positive matrix with eigenvalues about one."""
    root = torch.eye(n, dtype=torch.float64) + 0.2 * torch.randn(n, n, generator=generator, dtype=torch.float64)
    return root @ root.T


def test_one_normal_density_becomes_the_other() -> None:
    generator = torch.Generator().manual_seed(4)
    points = torch.randn(400, 3, generator=generator, dtype=torch.float64) * 1.3 + 0.2
    means = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    stiffness = [spread(3, generator), spread(3, generator)]
    found = [nearest_normal(points, -(points - m) @ k) for m, k in zip(means, stiffness, strict=True)]
    for normal, mean, wanted in zip(found, means, stiffness, strict=True):
        torch.testing.assert_close(normal.mean, mean)
        torch.testing.assert_close(normal.stiffness, wanted)
    map_ = HarmonicMap(
        turning=torch.tensor([1]),
        local=torch.tensor([0, 2, 3]),
        centre=torch.tensor([0.4, 0.1, 0.2, 0.3], dtype=torch.float64),
        order=torch.zeros(1, 1, dtype=torch.float64),
        shift=0.1 * torch.ones(3, 1, dtype=torch.float64),
        mixing=0.01 * spread(3, generator),
    )
    other = matched(map_, found[0], found[1])

    def target(internal: Tensor) -> Tensor:
        x = map_.to_independent(internal)[:, map_.local] - means[1]
        return -0.5 * ((x @ stiffness[1]) * x).sum(1)

    coordinates = torch.randn(50, 4, generator=generator, dtype=torch.float64)
    x = coordinates[:, map_.local] - means[0]
    flow = -0.5 * ((x @ stiffness[0]) * x).sum(1)
    gap = target(other.to_internal(coordinates)) - flow
    torch.testing.assert_close(gap, gap[:1].expand(50), rtol=0.0, atol=1e-9)
    # The volume is that of the map.
    volume = 0.5 * (torch.logdet(stiffness[0]) - torch.logdet(stiffness[1]))
    assert other.log_det - map_.log_det == pytest.approx(float(volume))


def test_clashes_do_not_count() -> None:
    generator = torch.Generator().manual_seed(5)
    points = torch.randn(300, 2, generator=generator, dtype=torch.float64)
    slopes = -(points - 0.3)
    slopes[:3] = 1e6
    slopes[3] = torch.nan
    found = nearest_normal(points, slopes)
    torch.testing.assert_close(found.mean, torch.full((2,), 0.3, dtype=torch.float64))
    torch.testing.assert_close(found.stiffness, torch.eye(2, dtype=torch.float64))


def test_a_displaced_molecule_is_found_again() -> None:
    model = load("alanine-dipeptide")
    _, opened = redescribed(model, Changes(temperature=301.0))
    inner = opened.counted.target
    assert inner.map is not None
    generator = torch.Generator().manual_seed(6)
    wrong = inner.map.centre.clone()
    local = len(inner.map.turning)
    push = 0.6 * torch.randn(len(inner.map.local), generator=generator, dtype=torch.float64)
    wrong[local:] += inner.map.mixing @ push
    displaced = type(inner)(
        inner.molecule, opened.energy.evaluate, inner.layout, replace(inner.map, centre=wrong, mixing=inner.map.mixing)
    )
    counted = type(opened.counted)(displaced)
    found = match(model.flow, replace(opened, counted=counted), 4000, seed=1)
    assert found is not None
    assert counted.ledger["monitoring_gradients"] == counted.ledger["monitoring"] <= 4000

    def ess(target: object) -> float:
        parts = draw(model.flow, target, 2000, batch=2000, generator=generator, purpose=Purpose.MONITORING)
        return effective_fraction(torch.cat([part.log_weights for part in parts]))

    assert ess(counted) < 0.1
    assert ess(found.target.counted) > 0.6
    assert found.ess > 0.6
