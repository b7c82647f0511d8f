"""Laws of the kernels that need no statistics: reversibility, order, volume, bookkeeping."""

import math

import pytest
import torch
from torch import Tensor

from boltzport.mcmc import (
    Density,
    Logs,
    ais,
    combine,
    differentiate,
    follow_acceptance,
    hmc,
    init_dual_averaging,
    plain,
    target,
    tempering,
    update_dual_averaging,
)

SCALES = torch.tensor([[0.7, 1.9]], dtype=torch.float64)


def skewed(x: Tensor) -> Tensor:
    """A banana with a cubic term: neither symmetric nor separable, but bounded above."""
    first, second = x.unbind(-1)
    return -0.5 * first**2 - 0.5 * (second - 0.5 * first**2 + 0.3 * first) ** 2 - 0.1 * first**4


def phase(n: int, *, seed: int) -> hmc.Phase:
    generator = torch.Generator().manual_seed(seed)
    x, p = torch.randn(2, n, 2, dtype=torch.float64, generator=generator)
    return hmc.Phase(x, p, plain(skewed).parts(x))


def hamiltonian(at: hmc.Phase) -> Tensor:
    return -skewed(at.coordinates) + 0.5 * (at.momenta**2).sum(1)


def test_leapfrog_comes_back_when_momenta_turn() -> None:
    parts = plain(skewed).parts
    start = phase(50, seed=0)
    end = hmc.leapfrog(start, parts, scales=SCALES, step_size=0.2, steps=9)
    back = hmc.leapfrog(end._replace(momenta=-end.momenta), parts, scales=SCALES, step_size=0.2, steps=9)
    assert float((end.coordinates - start.coordinates).abs().max()) > 0.5
    torch.testing.assert_close(back.coordinates, start.coordinates, rtol=0, atol=1e-11)
    torch.testing.assert_close(-back.momenta, start.momenta, rtol=0, atol=1e-11)


def test_energy_error_is_of_second_order() -> None:
    start, parts = phase(200, seed=1), plain(skewed).parts
    errors = []
    for halvings in range(3):
        step_size, steps = 0.04 / 2**halvings, 10 * 2**halvings
        end = hmc.leapfrog(start, parts, scales=SCALES, step_size=step_size, steps=steps)
        errors.append(float((hamiltonian(end) - hamiltonian(start)).abs().mean()))
    orders = [math.log2(errors[i] / errors[i + 1]) for i in range(2)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)


def test_leapfrog_preserves_volume() -> None:
    parts = plain(skewed).parts
    start = phase(1, seed=2)

    def flow(point: Tensor) -> Tensor:
        x, p = point[None, :2], point[None, 2:]
        end = hmc.leapfrog(hmc.Phase(x, p, parts(x)), parts, scales=SCALES, step_size=0.3, steps=5)
        return torch.cat([end.coordinates[0], end.momenta[0]])

    point = torch.cat([start.coordinates[0], start.momenta[0]])
    step = 1e-5
    columns = [(flow(point + step * unit) - flow(point - step * unit)) / (2 * step) for unit in torch.eye(4).double()]
    jacobian = torch.stack(columns, 1)
    assert float(torch.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-7)
    assert float((jacobian - torch.eye(4)).abs().max()) > 0.5


def test_a_combination_has_the_gradient_of_autograd() -> None:
    def logs(x: Tensor) -> Logs:
        return Logs(-(x**4).sum(1), skewed(x))

    x = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()

    def squared_ratio(log_q: Tensor, log_p: Tensor) -> Tensor:
        return 2 * log_p - log_q + 0.1 * log_p * log_q

    found = combine(differentiate(logs)(x), squared_ratio)
    expected = squared_ratio(*logs(x))
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(found.log_density, expected.detach())
    torch.testing.assert_close(found.gradient, gradient)


def test_what_is_outside_is_rejected_and_counted() -> None:
    def half_line(x: Tensor) -> Tensor:
        return torch.where(x[:, 0] > 0, -x[:, 0], torch.nan)

    density = plain(half_line)
    generator = torch.Generator().manual_seed(4)
    state = hmc.init(torch.full((500, 1), 0.2, dtype=torch.float64), density)
    scales = torch.ones(1, 1, dtype=torch.float64)
    new, info = hmc.step(state, generator, density=density, scales=scales, step_size=0.5, leapfrogs=2)
    assert 0 < int(info.diverged.sum()) < 500
    assert not (info.diverged & info.accepted).any()
    assert bool((new.coordinates > 0).all())
    torch.testing.assert_close(new.coordinates[~info.accepted], state.coordinates[~info.accepted])
    torch.testing.assert_close(new.parts.log_p, half_line(new.coordinates))


def test_rounded_forces_leave_the_values_exact() -> None:
    def rounded(x: Tensor) -> Logs:
        found = skewed(x.half().double())
        return Logs(torch.zeros_like(found), found)

    def exact(x: Tensor) -> Logs:
        return Logs(torch.zeros(len(x), dtype=x.dtype), skewed(x))

    density = Density(parts=differentiate(rounded), logs=exact)
    generator = torch.Generator().manual_seed(5)
    state = hmc.init(torch.randn(50, 2, dtype=torch.float64, generator=generator), density)
    state, info = hmc.step(state, generator, density=density, scales=SCALES, step_size=0.3, leapfrogs=3)
    assert info.accepted.any()
    torch.testing.assert_close(combine(state.parts, target).log_density, skewed(state.coordinates), rtol=0, atol=0)


def test_dual_averaging_finds_the_wanted_acceptance_of_each_group() -> None:
    limits = torch.tensor([0.5, 3.0], dtype=torch.float64)
    state = init_dual_averaging(torch.full((2,), 0.1, dtype=torch.float64))
    for _ in range(400):
        state = update_dual_averaging(state, (-((state.log_step.exp() / limits) ** 2)).exp(), wanted=0.8)
    expected = limits * math.sqrt(-math.log(0.8))
    torch.testing.assert_close(state.log_average.exp(), expected, rtol=0.03, atol=0)


def test_step_sizes_follow_a_density_that_moves() -> None:
    sizes = torch.tensor([0.1, 9.0], dtype=torch.float64)
    for limit in (0.5, 3.0):
        for _ in range(100):
            sizes = follow_acceptance(sizes, (-((sizes / limit) ** 2)).exp(), wanted=0.65)
        expected = torch.full((2,), limit * math.sqrt(-math.log(0.65)), dtype=torch.float64)
        torch.testing.assert_close(sizes, expected, rtol=0.01, atol=0)


def test_chains_stay_in_the_precision_of_their_points() -> None:
    def logs(x: Tensor) -> Logs:
        return Logs(-0.5 * (x.double() ** 2).sum(1), skewed(x.double()))

    density, generator = Density(parts=differentiate(logs)), torch.Generator().manual_seed(10)
    state = hmc.init(torch.randn(20, 2, generator=generator), density)
    state, info = hmc.step(state, generator, density=density, scales=SCALES.float(), step_size=0.2, leapfrogs=3)
    assert state.coordinates.dtype == torch.float32
    assert state.parts.log_p.dtype == torch.float64
    assert info.accepted.any()


def test_annealing_tells_where_it_began_and_ended_and_what_it_costs() -> None:
    evaluated = []

    def logs(x: Tensor) -> Logs:
        evaluated.append(len(x))
        return Logs(-0.5 * (x**2).sum(1), skewed(x))

    generator = torch.Generator().manual_seed(11)
    samples = torch.randn(30, 2, dtype=torch.float64, generator=generator)
    done = ais.anneal(
        samples,
        generator,
        density=Density(parts=differentiate(logs)),
        times=torch.tensor([0.3, 0.5, 1.0], dtype=torch.float64),
        scales=SCALES,
        step_sizes=torch.full((3,), 0.3, dtype=torch.float64),
        leapfrogs=4,
        jitter=False,
        path=ais.minimum_variance,
    )
    assert evaluated == [30] * (1 + 2 * 4)
    for known, points in ((done.first, samples), (done.last, done.coordinates)):
        torch.testing.assert_close(known.log_p, skewed(points))
        torch.testing.assert_close(known.log_base, -0.5 * (points**2).sum(1))


def test_the_path_of_least_variance_goes_by_p_to_its_square_over_q() -> None:
    log_q, log_p = torch.tensor([-1.0, -torch.inf]), torch.tensor([-4.0, -2.0])
    assert ais.minimum_variance(log_q, log_p, 0.0).tolist() == [-1.0, -math.inf]
    assert ais.minimum_variance(log_q, log_p, 0.5).tolist() == [-4.0, -2.0]
    assert ais.minimum_variance(log_q, log_p, 1.0)[0] == 2 * -4.0 - -1.0
    assert ais.minimum_variance(log_q, log_p, 0.25)[0] == 0.5 * -1.0 + 0.5 * -4.0


def test_leapfrogs_are_jittered_about_their_mean() -> None:
    generator = torch.Generator().manual_seed(6)
    drawn = [hmc.draw_leapfrogs(6, generator) for _ in range(500)]
    assert set(drawn) == set(range(3, 10))
    assert hmc.draw_leapfrogs(1, generator) == 1


def test_a_swap_carries_all_that_belongs_to_a_point() -> None:
    density = plain(skewed)
    generator = torch.Generator().manual_seed(7)
    start = torch.randn(4, 30, 2, dtype=torch.float64, generator=generator)
    state = tempering.init(start, density)
    beta = torch.tensor([1.0, 0.6, 0.3, 0.1], dtype=torch.float64)
    for parity in (0, 1, 0):
        assert state.parity == parity
        state, rates = tempering.swap(state, generator, beta=beta)
        assert rates.isnan().tolist() == [number % 2 != parity for number in range(3)]
    expected = start.gather(0, state.walkers[..., None].expand(-1, -1, 2)).reshape(-1, 2)
    assert not torch.equal(state.walkers, torch.arange(4)[:, None].expand(4, 30))
    torch.testing.assert_close(state.chains.coordinates, expected, rtol=0, atol=0)
    fresh = density.parts(expected)
    for kept, evaluated in zip(state.chains.parts, fresh, strict=True):
        torch.testing.assert_close(kept, evaluated, rtol=0, atol=0)


def test_round_trips_are_from_cold_to_hot_and_back() -> None:
    """With equal temperatures every swap is taken, so that walkers march up and down in step."""
    state = tempering.init(torch.zeros(4, 1, 2, dtype=torch.float64), plain(skewed))
    beta = torch.ones(4, dtype=torch.float64)
    generator = torch.Generator().manual_seed(8)
    for _ in range(8):
        state, _ = tempering.swap(state, generator, beta=beta)
    # A full circle: each walker is where it was, and only the one that started cold has been up and down.
    assert state.walkers[:, 0].tolist() == [0, 1, 2, 3]
    assert state.round_trips[:, 0].tolist() == [1, 0, 0, 0]
    for _ in range(8):
        state, _ = tempering.swap(state, generator, beta=beta)
    # The others have completed the trip that they began on the coldest rung, also the one that started hot.
    assert state.round_trips[:, 0].tolist() == [2, 1, 1, 1]


def test_a_ladder_of_one_rung_has_no_trips() -> None:
    state = tempering.init(torch.zeros(1, 1, 2, dtype=torch.float64), plain(skewed))
    generator = torch.Generator().manual_seed(8)
    for _ in range(3):
        state, _ = tempering.swap(state, generator, beta=torch.ones(1, dtype=torch.float64))
    assert int(state.round_trips.sum()) == 0


def test_what_has_no_density_has_no_weight() -> None:
    def half(x: Tensor) -> Logs:
        log_q = -0.5 * x[:, 0] ** 2
        return Logs(log_q, torch.where(x[:, 0] > 0, log_q, -torch.inf))

    density = Density(parts=differentiate(half))
    generator = torch.Generator().manual_seed(9)
    samples = torch.randn(2000, 1, dtype=torch.float64, generator=generator)
    times = torch.linspace(0.25, 1.0, 4, dtype=torch.float64)
    done = ais.anneal(
        samples,
        generator,
        density=density,
        times=times,
        scales=torch.ones(1, 1, dtype=torch.float64),
        step_sizes=torch.full((4,), 0.5, dtype=torch.float64),
        leapfrogs=3,
    )
    assert torch.equal(done.log_weights.isneginf(), samples[:, 0] <= 0)
    assert not done.log_weights.isnan().any()
