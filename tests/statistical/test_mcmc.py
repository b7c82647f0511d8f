"""Kernels leave known densities alone, within Monte Carlo error."""

import math

import torch
from torch import Tensor

from boltzport.mcmc import Density, Logs, ais, differentiate, hmc, plain, tempering

Z_BOUND = 4.5
"""Standard errors allowed; with some twenty comparisons a good kernel fails once in ten thousand seeds."""


def skewed_samples(n: int, generator: torch.Generator) -> Tensor:
    """Exact samples of a correlated skewed density: a log-gamma coordinate, and a normal one bent by it."""
    exponential = -torch.rand(3, n, dtype=torch.float64, generator=generator).log()
    first = exponential.sum(0).log()
    second = 0.8 * first**2 - first + 0.5 * torch.randn(n, dtype=torch.float64, generator=generator)
    return torch.stack([first, second], 1)


def skewed(x: Tensor) -> Tensor:
    first, second = x.unbind(-1)
    return 3 * first - first.exp() - 0.5 * ((second - 0.8 * first**2 + first) / 0.5) ** 2


def moments(x: Tensor) -> Tensor:
    first, second = x.unbind(-1)
    return torch.stack([first, second, first**2, first * second, second**2, first**3, (second > 1).double()], 1)


def z_scores(found: Tensor, known: Tensor) -> Tensor:
    """Differences of means of independent rows in units of their standard error."""
    error = (found.var(0) / len(found) + known.var(0) / len(known)).sqrt()
    return ((found.mean(0) - known.mean(0)) / error).abs()


def test_hmc_leaves_a_skewed_density_invariant() -> None:
    """Chains that start in equilibrium stay in it, at a step size with many rejections."""
    generator = torch.Generator().manual_seed(0)
    density, n = plain(skewed), 40_000
    scales = torch.tensor([[0.6, 1.0]], dtype=torch.float64)
    state = hmc.init(skewed_samples(n, generator), density)
    rates = []
    for _ in range(6):
        state, info = hmc.step(state, generator, density=density, scales=scales, step_size=0.75, leapfrogs=4)
        rates.append(float(info.acceptance.mean()))
    assert 0.3 < sum(rates) / len(rates) < 0.9
    assert float(z_scores(moments(state.coordinates), moments(skewed_samples(10 * n, generator))).max()) < Z_BOUND


def test_hmc_obeys_detailed_balance_between_regions() -> None:
    """In equilibrium as many chains go from one region to another as come back: on three regions, not by symmetry."""
    generator = torch.Generator().manual_seed(1)
    density, n = plain(skewed), 100_000
    start = skewed_samples(n, generator)
    state = hmc.init(start, density)
    scales = torch.tensor([[0.6, 1.0]], dtype=torch.float64)
    state, _ = hmc.step(state, generator, density=density, scales=scales, step_size=0.7, leapfrogs=2)
    edges = torch.tensor([0.6, 1.2], dtype=torch.float64)
    before, after = (torch.bucketize(x[:, 0].contiguous(), edges) for x in (start, state.coordinates))
    flux = torch.zeros(3, 3, dtype=torch.float64).index_put_((before, after), torch.ones(n).double(), accumulate=True)
    for i, j in ((0, 1), (1, 2), (0, 2)):
        assert flux[i, j] > 100
        assert abs(float(flux[i, j] - flux[j, i])) < Z_BOUND * math.sqrt(float(flux[i, j] + flux[j, i]))


def test_tempering_leaves_every_rung_invariant() -> None:
    """Gamma laws: with the base x^2 and log p = -x, the rung of inverse temperature beta is Gamma(3, beta)."""

    def logs(x: Tensor) -> Logs:
        inside = x[:, 0] > 0
        safe = torch.where(inside, x[:, 0], 1.0)
        return Logs(2 * safe.log(), torch.where(inside, -safe, -torch.inf))

    generator = torch.Generator().manual_seed(2)
    ladders = 10_000
    beta = torch.tensor([1.0, 0.5, 0.25], dtype=torch.float64)
    exponential = -torch.rand(3, 3, ladders, dtype=torch.float64, generator=generator).log()
    start = exponential.sum(0) / beta[:, None]
    density = Density(parts=differentiate(logs))
    state = tempering.init(start[..., None], density)
    for _ in range(12):
        state, info = tempering.step(
            state,
            generator,
            density=density,
            beta=beta,
            scales=(1 / beta)[:, None],
            step_size=torch.full((3,), 0.6, dtype=torch.float64),
            leapfrogs=3,
        )
        assert 0.3 < float(info.swap_acceptance.nanmean()) < 0.95
    assert (state.walkers != torch.arange(3)[:, None]).double().mean() > 0.4
    x = state.chains.coordinates.reshape(3, ladders)
    for rung in range(3):
        scaled = x[rung] * beta[rung]
        found = torch.stack([scaled, scaled**2, scaled.log()], 1)
        known = torch.tensor([3.0, 12.0, 0.9227843350984671], dtype=torch.float64)  # digamma(3)
        assert float(((found.mean(0) - known) / (found.std(0) / ladders**0.5)).abs().max()) < Z_BOUND


def bimodal(x: Tensor) -> Tensor:
    """Two normals 12 widths apart, with weights 0.3 and 0.7."""
    left, right = math.log(0.3) - 0.5 * (x[:, 0] + 6) ** 2, math.log(0.7) - 0.5 * (x[:, 0] - 6) ** 2
    return torch.logaddexp(left, right)


def run_bimodal(rungs: int, generator: torch.Generator) -> tuple[float, int]:
    """Share of time on the right, all chains having started on the left; and round trips."""
    ladders = 200
    beta = torch.logspace(0, -1.5 if rungs > 1 else 0, rungs, dtype=torch.float64)
    density = plain(bimodal)
    state = tempering.init(torch.full((rungs, ladders, 1), -6.0, dtype=torch.float64), density)
    right = []
    for iteration in range(500):
        state, _ = tempering.step(
            state,
            generator,
            density=density,
            beta=beta,
            scales=beta[:, None].rsqrt(),
            step_size=torch.full((rungs,), 0.5, dtype=torch.float64),
            leapfrogs=hmc.draw_leapfrogs(3, generator),
        )
        if iteration >= 100:
            right.append((state.chains.coordinates[:ladders, 0] > 0).double().mean())
    return float(torch.stack(right).mean()), int(state.round_trips.sum())


def test_two_modes_mix_with_tempering_and_not_without() -> None:
    alone, _ = run_bimodal(1, torch.Generator().manual_seed(3))
    assert alone == 0.0
    share, round_trips = run_bimodal(5, torch.Generator().manual_seed(3))
    assert abs(share - 0.7) < 0.04
    assert round_trips > 200


def run_gaussian(path: ais.Path, generator: torch.Generator) -> ais.Annealed:
    """From a standard normal, normalised, to exp(-(x - 1)^2 / (2 s^2)) with s = 0.7 and 1.1, not normalised."""
    widths = torch.tensor([0.7, 1.1], dtype=torch.float64)

    def logs(x: Tensor) -> Logs:
        return Logs(-0.5 * (x**2).sum(1) - math.log(2 * math.pi), -0.5 * (((x - 1) / widths) ** 2).sum(1))

    samples = torch.randn(20_000, 2, dtype=torch.float64, generator=generator)
    times = torch.linspace(0, 1, 9, dtype=torch.float64)[1:]
    return ais.anneal(
        samples,
        generator,
        density=Density(parts=differentiate(logs)),
        times=times,
        scales=widths[None],
        step_sizes=torch.full((8,), 0.9, dtype=torch.float64),
        leapfrogs=3,
        path=path,
    )


def check_weights(log_weights: Tensor, expected: float) -> None:
    weights = (log_weights - expected).exp()
    assert abs(float(weights.mean()) - 1) < Z_BOUND * float(weights.std()) / len(weights) ** 0.5
    assert float(weights.std()) / len(weights) ** 0.5 < 0.02


def test_ais_gives_the_normalising_constant_of_a_gaussian() -> None:
    done = run_gaussian(ais.geometric, torch.Generator().manual_seed(4))
    check_weights(done.log_weights, math.log(2 * math.pi * 0.7 * 1.1))
    weights = done.log_weights.softmax(0)
    mean = (weights[:, None] * done.coordinates).sum(0)
    torch.testing.assert_close(mean, torch.ones(2, dtype=torch.float64), rtol=0, atol=0.05)
    assert bool((done.acceptance < 0.999).all())


def test_ais_takes_any_path() -> None:
    """To p^2 / q: precision a = 2 / s^2 - 1 and linear term b = 2 / s^2 in each coordinate; worked out by hand."""
    done = run_gaussian(ais.minimum_variance, torch.Generator().manual_seed(5))
    expected = math.log(2 * math.pi)
    for width in (0.7, 1.1):
        a, b = 2 / width**2 - 1, 2 / width**2
        expected += 0.5 * math.log(2 * math.pi / a) + b**2 / (2 * a) - 1 / width**2
    check_weights(done.log_weights, expected)
