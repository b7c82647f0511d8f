"""Annealed sampling from flows with an effective fraction of about 1 %: log Z and moments are right, and their errors.

Kernels that are wrong fail the same test.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from torch import Tensor

from bad_flows import Normals, gaussian_flow
from boltzport.core.layout import Layout, interval
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.ensembles import Course, annealed, survey
from boltzport.flows import draw
from boltzport.mcmc import hmc
from boltzport.targets import CountedTarget, Evaluated, GaussianMixture, Purpose, Target, toy

SEEDS = 20
DRAWS = 400


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Stretched(Target):
    """A target whose own measure is that of y = sinh(x): its volume per unit of x is not constant."""

    def __init__(self, inner: GaussianMixture, layout: Layout) -> None:
        self._inner, self._layout = inner, layout

    @property
    def name(self) -> str:
        return "stretched"

    @property
    def layout(self) -> Layout:
        return self._layout

    def evaluate(self, coordinates: Tensor) -> Evaluated:
        return Evaluated(self._inner.log_density(coordinates.sinh()), coordinates.cosh().log().sum(1))


@dataclass(frozen=True, kw_only=True)
class Case:
    """A target with known answers, and a flow that is far from it."""

    target: Target
    flow: Normals
    log_z: float
    moments: Tensor
    densities: int
    draws: int

    def statistics(self, points: Tensor) -> Tensor:
        points = points.sinh() if isinstance(self.target, Stretched) else points
        return torch.cat([points[:, :4], points[:, :2] ** 2], 1)


def gaussian(dimension: int, *, scale: float, reach: float) -> GaussianMixture:
    """A correlated normal density away from the origin."""
    generator = seeded(3)
    lower = torch.tril(0.35 * torch.randn(dimension, dimension, generator=generator, dtype=torch.float64), -1)
    widths = 0.4 + 0.8 * torch.rand(dimension, generator=generator, dtype=torch.float64)
    mean = torch.randn(dimension, generator=generator, dtype=torch.float64)
    layout = Layout(interval(-reach, reach, centre=0.0, width=1.0) for _ in range(dimension))
    factors = scale * (lower + torch.diag(widths))
    return GaussianMixture("far", layout, weights=torch.ones(1), means=scale * mean[None], factors=factors[None])


@cache
def case(name: str) -> Case:
    if name == "gmm-40":
        mixture = toy(name)
        assert isinstance(mixture, GaussianMixture)
        flow, densities = gaussian_flow(mixture.layout, [12.0, -10.0], [18.0, 18.0]), 16
        target: Target = mixture
    elif name == "many-well-32":
        target = mixture = toy(name)
        means = torch.tensor([[-1.72, 1.75], [0.15, 0.15]]).repeat(16, 1)
        widths = torch.tensor([[0.35, 0.35], [1.1, 1.1]]).repeat(16, 1)
        shares = torch.tensor([[0.17, 0.83], [0.5, 0.5]]).repeat(16, 1)
        flow, densities = Normals(target.layout, means=means, widths=widths, shares=shares), 12
    elif name == "correlated":
        target = mixture = gaussian(6, scale=1.0, reach=30.0)
        flow, densities = gaussian_flow(target.layout, [-0.7] * 6, [1.3] * 6), 24
    else:
        mixture = gaussian(4, scale=0.6, reach=30.0)
        layout = Layout(interval(-6.0, 6.0, centre=0.0, width=1.0) for _ in range(4))
        target, densities = Stretched(mixture, layout), 24
        flow = gaussian_flow(layout, [-0.6, 0.6, 0.3, -0.3], [0.7] * 4)
    # log Z of few effective samples is skewed; gmm-40 has the fewest, since annealing cannot even out its modes.
    draws = 4 * DRAWS if name == "gmm-40" else DRAWS
    exact = mixture.sample(400_000, generator=seeded(99))
    raw = torch.cat([exact[:, :4], exact[:, :2] ** 2], 1).mean(0)
    return Case(target=target, flow=flow, log_z=mixture.log_z, moments=raw, densities=densities, draws=draws)


@cache
def course(name: str) -> Course:
    return survey(case(name).flow, CountedTarget(case(name).target), generator=seeded(1000), population=512)


def sampled(name: str, seed: int) -> tuple[Tensor, Tensor]:
    """Points and log-weights of one run."""
    found, target = case(name), CountedTarget(case(name).target)
    plan = course(name).plan(found.densities)
    frames = list(annealed(found.flow, target, found.draws, plan, generator=seeded(seed), batch=found.draws))
    log_weights = torch.from_numpy(np.concatenate([part.numbers.log_weights for part in frames]))
    return torch.cat([part.coordinates for part in frames]), log_weights


def deviations(name: str) -> tuple[Tensor, Tensor]:
    """Errors of log Z in units of their standard error, by seed; and those of the moments, over all seeds."""
    found = case(name)
    scores, points, log_weights = [], [], []
    for seed in range(SEEDS):
        at, weights = sampled(name, seed)
        mean = log_mean(weights)
        scores.append((mean.value - found.log_z) / mean.error)
        points.append(at)
        log_weights.append(weights)
    weights = (torch.cat(log_weights) - found.log_z).exp()
    # Unbiased, not self-normalised: the mean of weight times statistic is the moment itself.
    values = weights[:, None] * found.statistics(torch.cat(points))
    return torch.tensor(scores), (values.mean(0) - found.moments) / (values.std(0) / len(values) ** 0.5)


NAMES = ["gmm-40", "many-well-32", "correlated", "stretched"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_flows_are_bad(name: str) -> None:
    found = case(name)
    drawn = draw(
        found.flow,
        CountedTarget(found.target),
        100_000,
        batch=50_000,
        generator=seeded(5),
        purpose=Purpose.EVALUATION,
    )
    plain = effective_fraction(torch.cat([part.log_weights for part in drawn]))
    assert plain < 0.02
    assert effective_fraction(sampled(name, 50)[1]) > 4 * plain


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_log_z_and_moments_are_right_with_their_errors(name: str) -> None:
    log_z, moments = deviations(name)
    assert float(log_z.abs().max()) < 3.0
    assert float(moments.abs().max()) < 4.0
    assert 0.45 <= float((log_z.abs() < 1.0).double().mean()) <= 0.95


def broken(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel == "no acceptance test":
        monkeypatch.setattr(hmc, "choose", lambda _mask, first, _second: first)
    elif kernel == "another density":
        right = hmc.log_density_of
        monkeypatch.setattr(hmc, "log_density_of", lambda parts, combination: 1.15 * right(parts, combination))
    else:
        right_volume = Stretched.evaluate

        def without_volume(self: Stretched, coordinates: Tensor) -> Evaluated:
            found = right_volume(self, coordinates)
            return found._replace(log_volume=0.5 * found.log_volume)

        monkeypatch.setattr(Stretched, "evaluate", without_volume)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["no acceptance test", "another density", "half the volume"])
def test_a_wrong_kernel_is_found_out(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    course("stretched")
    broken(kernel, monkeypatch)
    log_z, moments = deviations("stretched")
    assert max(float(log_z.abs().max()) / 3.0, float(moments.abs().max()) / 4.0) > 1.2
