"""Toys: their constants, samples and modes agree with each other."""

import math

import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.targets import TOYS, Evaluated, ManyWell, Toy, toy

N = 40_000


@pytest.fixture(params=TOYS)
def case(request) -> Toy:
    return toy(request.param)


def test_samples_follow_the_density(case: Toy) -> None:
    """E_p[g / p] = 1 / Z for every normalised density g within the support: a blurred p, by importance sampling."""
    generator = torch.Generator().manual_seed(1)
    x = case.sample(N, generator=generator)
    centre, scale = x.mean(0), x.std(0)
    if len(case.modes) > 1:
        # Around one mode only, where a normal has tails lighter than the target's.
        chosen = x[case.mode_of(x) == int(case.modes.argmax())]
        centre, scale = chosen.mean(0), chosen.std(0)
    normal = torch.distributions.Normal(centre, 0.7 * scale)
    log_ratio = normal.log_prob(x).sum(1) - case.log_density(x)
    weights = log_ratio.exp()
    error = float(weights.std() / weights.mean() / math.sqrt(N))
    assert float(weights.mean().log()) == pytest.approx(-case.log_z, abs=5 * error)
    assert error < 0.5


def test_normalised_on_a_grid() -> None:
    for name in ("gmm-2d", "double-well", "gaussian-skewed", "gaussian-correlated"):
        case = toy(name)
        axes = [torch.linspace(axis.lower, axis.upper, 1001, dtype=torch.float64) for axis in case.layout]
        points = torch.cartesian_prod(*axes)
        cell = math.prod(float(axis[1] - axis[0]) for axis in axes)
        log_z = float(torch.logsumexp(case.log_density(points), 0)) + math.log(cell)
        assert log_z == pytest.approx(case.log_z, abs=1e-4)


def test_modes_have_their_probabilities(case: Toy) -> None:
    assert float(case.modes.sum()) == pytest.approx(1.0, abs=1e-6)
    if len(case.modes) > 100:
        return
    x = case.sample(N, generator=torch.Generator().manual_seed(2))
    counts = torch.bincount(case.mode_of(x), minlength=len(case.modes)).double()
    deviation = (counts / N - case.modes) / (case.modes * (1 - case.modes) / N + 1e-12).sqrt()
    # Modes overlap a little, so a nearest component is not always the one that was drawn.
    assert float(deviation.abs().max()) < 6.0


def test_samples_lie_in_the_box(case: Toy) -> None:
    x = case.sample(N, generator=torch.Generator().manual_seed(3))
    for axis, column in zip(case.layout, x.T, strict=True):
        assert axis.lower < float(column.min())
        assert float(column.max()) < axis.upper


def test_wells_are_unequal_and_known() -> None:
    well = toy("many-well-32")
    assert isinstance(well, ManyWell)
    x = well.sample(N, generator=torch.Generator().manual_seed(4))
    right = (x[:, 0::2] > 0).double().mean(0)
    assert 0.6 < well.right < 0.95
    assert float((right - well.right).abs().max()) < 5 * math.sqrt(well.right * (1 - well.right) / N)
    # The figure that the FAB paper's code has for 16 pairs: 164.6957.
    assert well.log_z == pytest.approx(164.6957, abs=1e-3)


def test_the_mixture_of_forty_is_the_published_one() -> None:
    case = toy("gmm-40")
    generator = torch.Generator().manual_seed(0)
    point = torch.zeros(1, 2)
    assert case.evaluate(point) == Evaluated(case.log_density(point.double()), torch.zeros(1).double())
    torch.testing.assert_close(case.means, ((torch.rand((40, 2), generator=generator) - 0.5) * 80).double())
    assert float(case.factors[0, 0, 0]) == pytest.approx(1.3132616, abs=1e-6)


def test_an_unknown_toy_is_named() -> None:
    with pytest.raises(InputError, match=r"gmm-2d.*got gmm-3d"):
        toy("gmm-3d")
