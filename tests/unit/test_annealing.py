"""Annealed draws: schedules, choice of their number, files, and what bad input says."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from bad_flows import Normals, gaussian_flow
from boltzport.core.errors import InputError
from boltzport.core.interrupt import StopRequest
from boltzport.core.layout import Layout, circle, interval
from boltzport.ensembles import Course, Mode, Plan, annealed, annealed_source, choose, open_stream, survey, write_frames
from boltzport.ensembles.survey import conditional_size
from boltzport.flows import Samples
from boltzport.mcmc import ais
from boltzport.targets import CountedTarget, Density, toy


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


LAYOUT = Layout([interval(-20.0, 20.0), interval(-20.0, 20.0), circle()])


def shifted() -> CountedTarget:
    """Two correlated normals and a von Mises angle that trajectories can take round the circle."""

    def log_density(x: torch.Tensor) -> torch.Tensor:
        first, second, angle = x.unbind(1)
        bent = -0.5 * (first - 2.0) ** 2 / 0.6 - 0.5 * (second - 0.7 * first) ** 2 / 0.3
        return bent + 0.8 * torch.cos(angle - 2.8)

    return CountedTarget(Density(log_density, LAYOUT, name="shifted"))


class Round(Normals):
    """Normals on the line, and a uniform angle."""

    def _log_prob(self, coordinates: torch.Tensor) -> torch.Tensor:
        kept = torch.cat([coordinates[:, :2], torch.zeros_like(coordinates[:, 2:])], 1)
        return super()._log_prob(kept)

    def _sample(self, n: int, generator: torch.Generator):
        points = super()._sample(n, generator).coordinates
        angle = (torch.rand(n, 1, dtype=torch.float64, generator=generator) * 2 - 1) * torch.pi
        points = torch.cat([points[:, :2], angle], 1)
        return Samples(points, self._log_prob(points))


def flow() -> Round:
    width = torch.tensor([[1.2], [1.0], [1 / (2 * torch.pi) ** 0.5 * (2 * torch.pi)]])
    # The last component is a constant: a normal density at its mean is 1 / (2 pi) here.
    means = torch.zeros(3, 1)
    return Round(LAYOUT, means=means, widths=width, shares=torch.ones(3, 1))


def test_densities_are_at_equal_lengths_and_end_at_the_target() -> None:
    course = Course(
        times=torch.tensor([0.0, 0.1, 0.5, 1.0]).double(),
        lengths=torch.tensor([0.0, 1.0, 2.0, 4.0]).double(),
        step_sizes=torch.tensor([0.2, 0.2, 0.4, 0.1]).double(),
        scales=torch.tensor([[1.0], [1.0], [4.0], [0.5]]).double(),
    )
    plan = course.plan(3)
    assert plan.densities == 3
    torch.testing.assert_close(plan.times, torch.tensor([0.1, 0.5, 0.75, 1.0]).double())
    torch.testing.assert_close(plan.step_sizes[:3], torch.tensor([0.2, 0.4, 0.2]).double())
    torch.testing.assert_close(plan.scales[:2, 0], torch.tensor([1.0, 4.0]).double())
    assert course.plan(0).times.tolist() == [1.0]
    flat = course._replace(lengths=torch.zeros(4).double()).plan(1)
    assert flat.times.tolist() == [0.5, 1.0]


def test_the_pilot_takes_steps_of_bounded_divergence() -> None:
    target = shifted()
    course = survey(flow(), target, generator=seeded(0), population=300)
    assert course.times[0] == 0.0
    assert course.times[-1] == 1.0
    assert bool((course.times.diff() > 0).all())
    # Each step but the last has a conditional effective size of 0.8.
    np.testing.assert_allclose(course.lengths.diff()[:-1], (-np.log(0.8)) ** 0.5, rtol=1e-3)
    assert 0 < target.ledger["evaluation_gradients"] == target.ledger.total
    assert target.ledger.cost == 0


def test_the_conditional_size_of_a_normal_change_is_its_variance() -> None:
    change = 0.6 * torch.randn(200_000, dtype=torch.float64, generator=seeded(1))
    assert conditional_size(torch.zeros(len(change)), change) == pytest.approx(np.exp(-0.36), rel=0.01)


def test_weights_energies_and_evaluations_of_annealed_draws() -> None:
    target = shifted()
    plan = survey(flow(), target, generator=seeded(0), population=200).plan(3)
    before = target.ledger.total
    parts = list(annealed(flow(), target, 700, plan, generator=seeded(2), batch=300))
    assert [len(part.coordinates) for part in parts] == [300, 300, 100]
    assert np.concatenate([part.numbers.draw for part in parts]).tolist() == list(range(700))
    points = torch.cat([part.coordinates for part in parts])
    assert float(points[:, 2].abs().max()) <= np.pi
    energy = np.concatenate([part.numbers.reduced_energy for part in parts])
    np.testing.assert_allclose(-energy, target.target.evaluate(points).log_p, atol=1e-9)
    # The start, the trajectories (3 to 7 steps at each of 3 densities) and the energy of the end.
    assert 700 * (2 + 3 * 3) <= target.ledger.total - before <= 700 * (2 + 3 * 7)
    log_weights = torch.from_numpy(np.concatenate([part.numbers.log_weights for part in parts]))
    exact = 2 * np.pi * float(torch.special.i0(torch.tensor(0.8))) * 2 * np.pi * (0.6 * 0.3) ** 0.5
    assert float(log_weights.logsumexp(0)) - np.log(700) == pytest.approx(np.log(exact), abs=0.15)


def test_a_scale_at_each_time_is_used_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = ais.hmc.step

    def spy(*args, **options):
        seen.append(float(options["scales"].reshape(-1)[0]))
        return original(*args, **options)

    monkeypatch.setattr(ais.hmc, "step", spy)
    scales = torch.tensor([[0.5], [0.25], [9.0]]).expand(3, 3)
    times, steps = torch.tensor([0.3, 0.7, 1.0]).double(), torch.tensor([0.1, 0.1, 0.1]).double()
    list(
        annealed(
            flow(), shifted(), 5, Plan(times=times, step_sizes=steps, scales=scales, leapfrogs=1), generator=seeded(0)
        )
    )
    assert seen == [0.5, 0.25]


def counting(costs: dict[int, float]):
    """A clock that knows what each trial costs, in the order of the trials."""
    ticks = itertools.chain.from_iterable((0.0, cost) for cost in costs.values())
    return lambda: next(ticks)


def test_the_number_with_the_most_effective_samples_per_second_is_chosen() -> None:
    target = shifted()
    course = survey(flow(), target, generator=seeded(0), population=300)
    linear = {k: 1.0 + 5.0 * k for k in (0, 1, 2, 4, 8, 16)}
    chosen = choose(flow(), target, lambda: course, generator=seeded(3), clock=counting(linear))
    rates = {trial.densities: trial.rate for trial in chosen.trials if trial.trusted}
    assert chosen.densities == max(rates, key=lambda k: rates[k])
    assert f"anneal: {chosen.densities} densities" in chosen.message
    # If densities cost nothing, more of them win.
    free = choose(flow(), target, lambda: course, generator=seeded(3), clock=counting(dict.fromkeys(range(12), 1.0)))
    assert free.densities > 2


def test_a_good_flow_is_not_annealed() -> None:
    target = toy("gaussian-skewed")
    good = gaussian_flow(target.layout, [2.0, -1.0], [0.52, 1.15])

    def unused() -> Course:
        raise AssertionError("a good flow needs no survey")

    assert choose(good, CountedTarget(target), unused, generator=seeded(0)).densities == 0


def test_auto_gives_the_samples_of_the_number_that_it_chooses() -> None:
    def draws(anneal: int | str) -> tuple[np.ndarray, tuple[str, ...]]:
        generator = seeded(7)
        found = annealed_source(flow(), shifted(), anneal, generator=generator, pilot=seeded(8))
        assert found.source is not None
        return np.concatenate([part.numbers.log_weights for part in found.source(50)]), found.notes

    chosen, notes = draws("auto")
    number = int(notes[0].split()[1])
    assert number > 0
    np.testing.assert_array_equal(chosen, draws(number)[0])


@pytest.mark.parametrize("mode", [Mode.WEIGHTED, Mode.RESAMPLED, Mode.REFINED])
def test_annealed_files_in_every_mode(tmp_path: Path, mode: Mode) -> None:
    target, generator = shifted(), seeded(4)
    source = annealed_source(flow(), target, 2, generator=generator, pilot=seeded(5)).source
    stream = open_stream(flow(), target, 900, generator=generator, mode=mode, source=source)
    written = write_frames(tmp_path / "a.npz", stream, target.target, 900)
    file = np.load(tmp_path / "a.npz")
    points = torch.from_numpy(file["coordinates"]).double()
    np.testing.assert_allclose(-file["reduced_energy"], target.target.evaluate(points).log_p, atol=1e-4)
    assert np.average(points[:, 0].numpy(), weights=file["weights"]) == pytest.approx(2.0, abs=0.25)
    assert (written.frames, written.draws) == (900, 900)
    if mode is not Mode.WEIGHTED:
        assert file["weights"].tolist() == [1.0] * 900
        assert len(np.unique(file["draw"])) == written.distinct < 900


def test_an_interruption_leaves_the_frames_so_far(tmp_path: Path) -> None:
    target, stop = shifted(), StopRequest()

    def progress(stage: str, done: int, _total: int) -> None:
        stop.asked = stop.asked or (stage == "frames" and done >= 2000)

    stream = open_stream(flow(), target, 9000, generator=seeded(6), batch=1000)
    written = write_frames(tmp_path / "a.npz", stream, target.target, 9000, progress=progress, stop=stop)
    whole = open_stream(flow(), target, 2000, generator=seeded(6), batch=1000)
    write_frames(tmp_path / "b.npz", whole, target.target, 2000)
    assert written.frames == written.draws == 2000
    assert "interrupted: the files hold the first 2000 of 9000 frames" in written.notes
    one, other = np.load(tmp_path / "a.npz"), np.load(tmp_path / "b.npz")
    assert set(one.files) == set(other.files)
    for name in one.files:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("anneal", ["many", "-1", "1e9", "2.5"])
def test_a_wrong_number_of_densities_is_named(anneal: str) -> None:
    with pytest.raises(InputError, match=r"anneal: expected auto or a number of densities from 0 to 4096, got"):
        annealed_source(flow(), shifted(), anneal, generator=seeded(0), pilot=seeded(1))


def test_a_target_without_forces_is_refused_by_name() -> None:
    target = CountedTarget(Density(lambda x: -(x**2).sum(1), LAYOUT, name="rough", differentiable=False))
    with pytest.raises(InputError, match="anneal: the energy of rough has no forces"):
        annealed_source(flow(), target, 3, generator=seeded(0), pilot=seeded(1))
