"""Temperature-annealed generators: tempered densities, weights between temperatures, checkpoints."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.layout import Layout, interval
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Density, Evaluated, Target, toy
from boltzport.training.fit import FitData, FitInfo
from boltzport.training.methods import TABG, TABGConfig
from boltzport.training.methods.ta_bg import evaluations
from boltzport.training.methods.ta_bg import method as ta_bg_method
from boltzport.training.presets import TA_BG_PRESETS
from boltzport.training.resample import resampled
from boltzport.training.reverse import reverse_loss
from trainings import quiet, small_flow, trained

SMALL = TABGConfig(
    hot=3.0,
    rungs=2,
    final=1,
    pretrain_steps=2,
    pretrain_gradient_steps=5,
    pretrain_batch=64,
    remove_highest=2,
    warmup=0,
    buffer_size=1000,
    resampled_to=800,
    gradient_steps=10,
    batch_size=100,
)


class Tilted(Target):
    """A Gaussian of unequal widths in a measure whose volume element exp(tilt . x) shifts it.

    At the inverse temperature a it is, in coordinates, a Gaussian of the variance sigma^2 / a around tilt sigma^2 / a;
    with a volume that is tempered too, the centre would stay where it is.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.sigma = torch.tensor([0.6, 0.9], dtype=torch.float64)
        self.tilt = torch.tensor([0.8, -0.5], dtype=torch.float64)

    @property
    def name(self) -> str:
        return "tilted"

    @property
    def layout(self) -> Layout:
        return self._layout

    def evaluate(self, coordinates: Tensor) -> Evaluated:
        x = coordinates.double()
        return Evaluated(-0.5 * ((x / self.sigma) ** 2).sum(1), x @ self.tilt)

    def centre(self, power: float) -> Tensor:
        return self.tilt * self.sigma**2 / power

    def log_z(self, power: float) -> float:
        variance = self.sigma**2 / power
        return float((0.5 * (2 * math.pi * variance).log() + 0.5 * self.tilt**2 * variance).sum())


def tilted(*, power: float | None = None) -> Tilted:
    """The target on a layout whose base is any Gaussian, or exactly the target at an inverse temperature."""
    target = Tilted(Layout([interval(-12.0, 12.0, width=1.5)] * 2))
    if power is None:
        return target
    centre, width = target.centre(power).tolist(), (target.sigma / math.sqrt(power)).tolist()
    return Tilted(Layout(interval(-12.0, 12.0, centre=c, width=w) for c, w in zip(centre, width, strict=True)))


def random_flow(target: Target) -> Flow:
    return small_flow(target, moved=0.1).double()


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_the_reverse_loss_is_its_definition(power: float) -> None:
    """Value and gradient against plain differentiation, with the ten highest energies of 60 left out."""
    target = tilted()
    flow = random_flow(target)
    found = reverse_loss(
        flow,
        CountedTarget(target),
        60,
        inverse_temperature=power,
        leave_out=10,
        generator=torch.Generator().manual_seed(1),
    )
    x, log_q = flow.sample_and_log_prob(60, generator=torch.Generator().manual_seed(1))
    log_p, log_volume = target.evaluate(x)
    kept = log_p.argsort()[10:]
    expected = (log_q - power * log_p - log_volume)[kept].mean()
    torch.testing.assert_close(found.loss, expected, check_dtype=False)
    torch.testing.assert_close(found.log_p, log_p.detach())
    torch.testing.assert_close(found.log_q, (log_q - log_volume).detach())
    parameters = list(flow.parameters())
    for left, right in zip(
        torch.autograd.grad(found.loss, parameters), torch.autograd.grad(expected, parameters), strict=True
    ):
        torch.testing.assert_close(left, right, atol=1e-10, rtol=1e-8)


def test_points_that_fail_are_the_first_to_be_left_out_and_move_nothing() -> None:
    layout = Layout([interval(-4.0, 4.0, width=1.0)] * 2)

    def log_density(x: Tensor) -> Tensor:
        # The root makes slopes of NaN where it fails, as a broken evaluation does.
        return -0.5 * (x**2).sum(1) + 0.0 * (1.0 - x[:, 0]).sqrt()

    target = CountedTarget(Density(log_density, layout))
    flow = random_flow(target.target)
    parameters = list(flow.parameters())
    gradients = []
    failed = 0
    for remove in (0, 5):
        found = reverse_loss(flow, target, 200, leave_out=remove, generator=torch.Generator().manual_seed(0))
        failed = int(found.log_p.isnan().sum())
        assert failed > 5
        gradients.append(torch.cat([part.flatten() for part in torch.autograd.grad(found.loss, parameters)]))
    assert gradients[0].isfinite().all()
    assert torch.equal(*gradients)
    found = reverse_loss(flow, target, 200, leave_out=failed + 5, generator=torch.Generator().manual_seed(0))
    more = torch.cat([part.flatten() for part in torch.autograd.grad(found.loss, parameters)])
    assert not torch.allclose(more, gradients[0])
    assert target.ledger["failed"] == 3 * failed
    assert target.ledger["training_gradients"] == 600


def test_a_target_without_a_gradient_is_refused() -> None:
    target = Density(lambda x: -(x.detach() ** 2).sum(1), Layout([interval(-4.0, 4.0, width=1.0)] * 2))
    with pytest.raises(InputError, match="need a target with a gradient"):
        trained(TABG(SMALL), target)


@pytest.mark.parametrize("path_gradient", [False, True])
def test_pretraining_reaches_the_density_at_the_high_temperature(path_gradient: bool) -> None:
    """Variances are hot times larger, and the volume, which is not tempered, shifts the centre hot times farther."""
    target, hot = tilted(), 4.0
    config = replace(
        SMALL,
        hot=hot,
        pretrain_gradient_steps=60,
        pretrain_batch=300,
        pretrain_rate=2e-2,
        remove_highest=0,
        path_gradient=path_gradient,
    )
    method, counted = TABG(config), CountedTarget(target)
    state, generator = method.init(small_flow(target), counted), torch.Generator().manual_seed(0)
    rows = [method.step(state, generator=generator, progress=quiet) for _ in range(2)]
    with torch.no_grad():
        points = state.flow.sample(20_000, generator=generator).double()
    assert points.mean(0) == pytest.approx(target.centre(1 / hot), abs=0.12)
    assert points.var(0) / target.sigma**2 == pytest.approx(torch.full((2,), hot).double(), rel=0.12)
    # The divergence ends at minus the log of the constant of the hot density.
    assert rows[-1].loss == (None if path_gradient else pytest.approx(-target.log_z(1 / hot), abs=0.05))
    assert [row.alpha for row in rows] == [1 / hot] * 2
    assert counted.ledger["training_gradients"] == counted.ledger["training"] == 2 * 60 * 300


def test_weights_between_two_temperatures_are_exact() -> None:
    """A flow that is the hot density itself: effective sizes and constants in closed form, volumes included."""
    hot = 2.5
    target = tilted(power=1 / hot)
    config = replace(
        SMALL, hot=hot, rungs=2, pretrain_rate=1e-12, learning_rate=1e-12, buffer_size=100_000, gradient_steps=1
    )
    rows, counted, _ = trained(TABG(config), target)
    middle = 1 / math.sqrt(hot)
    assert [row.alpha for row in rows] == pytest.approx([1 / hot] * 2 + [middle, 1.0])
    # The pre-trained flow is exact.
    assert rows[1].step_ess == pytest.approx(1.0, abs=1e-6)
    assert rows[1].loss == pytest.approx(-target.log_z(1 / hot), abs=0.3)

    def log_mean_square(power: float) -> float:
        """Log of E_q[(p^power)^2 q^-2], for q the hot density: powers and volumes of Gaussians add up."""
        # (p^power vol / q)^2 q with q = p^(1/hot) vol / Z_hot: p^(2 power - 1/hot) vol Z_hot.
        return target.log_z(2 * power - 1 / hot) + target.log_z(1 / hot)

    for row, power in ((rows[2], middle), (rows[3], 1.0)):
        expected = math.exp(2 * target.log_z(power) - log_mean_square(power))
        assert row.step_ess == pytest.approx(expected, rel=0.03)
    assert rows[2].ess == pytest.approx(rows[3].step_ess, rel=0.03)
    assert rows[2].log_z == pytest.approx(target.log_z(1.0), abs=5 * rows[2].log_z_error)
    assert rows[2].log_z_path is None
    assert rows[3].log_z_path == pytest.approx(target.log_z(1.0), abs=0.02)
    assert counted.ledger["training"] == evaluations(config)


def test_a_fit_has_points_of_equal_weight_at_the_next_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow that is the hot density itself; the largest weights are clipped before."""
    hot, found, sizes = 2.5, [], []
    target = tilted(power=1 / hot)

    def fit(_flow: Flow, _optimiser: object, data: FitData, *_: object, **__: object) -> FitInfo:
        found.append(data)
        return FitInfo(1, 0.0, 0.0, 0.0, 0.0)

    monkeypatch.setattr(ta_bg_method, "fit", fit)
    for clip in (0.0, 0.3):
        method = TABG(replace(SMALL, hot=hot, rungs=1, clip=clip, buffer_size=40_000, resampled_to=30_000))
        state = method.init(small_flow(target), CountedTarget(target))
        state.step = 2
        row = method.step(state, generator=torch.Generator().manual_seed(0), progress=quiet)
        sizes.append(row.step_ess)
    exact, cut = found
    assert exact.size == 30_000
    assert torch.equal(exact.log_weights, torch.zeros(30_000, dtype=torch.float64))
    assert exact.coordinates.double().mean(0) == pytest.approx(target.centre(1.0), abs=0.02)
    assert exact.coordinates.double().var(0) == pytest.approx(target.sigma**2, rel=0.03)
    assert sizes[1] > 1.05 * sizes[0]
    assert (cut.coordinates.var(0) > 1.05 * exact.coordinates.var(0)).all(), "clipped weights are more even"


def test_the_rate_falls_once_over_the_pretraining_and_once_over_each_fit() -> None:
    rows, _, _ = trained(TABG(replace(SMALL, pretrain_rate=2e-3)), toy("gmm-2d"))
    progress = (0.8 / 2, 1.8 / 2, 0.9, 0.9)
    expected = [
        rate * 0.5 * (1 + math.cos(math.pi * part))
        for rate, part in zip((2e-3, 2e-3, 1e-3, 1e-3), progress, strict=True)
    ]
    assert [row.learning_rate for row in rows] == pytest.approx(expected)


def test_resampled_points_have_the_colder_densitys_energy_and_variance() -> None:
    generator = torch.Generator().manual_seed(0)
    target, here, there = tilted(), 0.4, 0.7
    normal = torch.randn(200_000, 2, dtype=torch.float64, generator=generator)
    x = target.centre(here) + normal * target.sigma / math.sqrt(here)
    log_p, log_volume = target.evaluate(x)
    log_q = here * log_p + log_volume - target.log_z(here)
    log_weights = there * log_p + log_volume - log_q
    chosen = resampled(log_weights, 150_000, generator=generator)
    assert len(chosen) == 150_000
    assert x[chosen].mean(0) == pytest.approx(target.centre(there), abs=0.02)
    assert x[chosen].var(0) == pytest.approx(target.sigma**2 / there, rel=0.02)
    # Mean of x^2 / (2 sigma^2): half of the temperature for each coordinate, and its centre's.
    energy = 0.5 * 2 / there + 0.5 * float((target.centre(there) ** 2 / target.sigma**2).sum())
    assert float(-log_p[chosen].mean()) == pytest.approx(energy, rel=0.01)


def test_points_that_fail_are_counted_and_have_weight_zero() -> None:
    layout = Layout([interval(-4.0, 4.0, width=1.0)] * 2)

    def log_density(x: Tensor) -> Tensor:
        wrong = torch.where(x[:, 0] > 1.0, math.nan, torch.where(x[:, 1] > 1.5, -math.inf, 0.0))
        return -0.5 * (x**2).sum(1) + wrong

    config = replace(SMALL, pretrain_rate=1e-12, pretrain_gradient_steps=8, pretrain_batch=500, buffer_size=4000)
    rows, counted, flow = trained(TABG(config), Density(log_density, layout))
    assert counted.ledger["failed"] == sum(row.failed for row in rows)
    assert all(row.failed > 0 for row in rows[:3])
    assert all(parameter.isfinite().all() for parameter in flow.parameters())
    expected = 2 * math.pi * 0.8413 * 0.9332
    for row in rows[:3]:
        assert math.exp(row.log_z) == pytest.approx(expected, rel=0.05)


def test_hopeless_weights_are_named_and_leave_the_state_alone() -> None:
    layout = Layout([interval(-12.0, 12.0, width=1.5)] * 2)
    needle = Density(lambda x: -0.5 * ((x - 1.0) ** 2).sum(1) / 1e-3**2, layout)
    target, method = CountedTarget(needle), TABG(replace(SMALL, pretrain_rate=1e-12))
    state, generator = method.init(small_flow(needle), target), torch.Generator().manual_seed(0)
    for _ in range(2):
        method.step(state, generator=generator, progress=quiet)
    before = copy.deepcopy(state.save())
    with pytest.raises(
        RunError, match=r"step 3: reweighted from temperature 3 to 1.73 .* 1000 points have an ESS of"
    ) as info:
        method.step(state, generator=generator, progress=quiet)
    for word in ("rungs", "buffer_size", "pretrain_steps"):
        assert word in str(info.value)
    after = state.save()
    assert (after["step"], after["gradient_steps"]) == (2, 10)
    assert all(torch.equal(value, before["flow"][name]) for name, value in after["flow"].items())
    assert after["optimiser"]["count"] == before["optimiser"]["count"] == 10


def test_a_fit_that_fails_is_rolled_back() -> None:
    target = CountedTarget(toy("gaussian-skewed"))
    method = TABG(replace(SMALL, learning_rate=1e30, max_gradient_norm=1e30))
    state, generator = method.init(small_flow(target.target), target), torch.Generator().manual_seed(0)
    for _ in range(2):
        method.step(state, generator=generator, progress=quiet)
    before = copy.deepcopy(state.flow.state_dict())
    with pytest.raises(RunError, match="a smaller learning_rate may help"):
        method.step(state, generator=generator, progress=quiet)
    assert state.step == 2
    assert all(torch.equal(value, before[name]) for name, value in state.flow.state_dict().items())


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_restored_state_goes_on_bit_for_bit(cut: int) -> None:
    """Before, at and after the border between pre-training and annealing."""
    config = replace(
        SMALL, weight_decay=1e-3, warmup=3, pretrain_gradient_steps=3, gradient_steps=4, pretrain_rate=2e-3
    )
    method, target = TABG(config), CountedTarget(toy("gmm-2d"))
    assert method.steps == 4
    state, generator = method.init(small_flow(target.target), target), torch.Generator().manual_seed(5)
    rows = [method.step(state, generator=generator, progress=quiet) for _ in range(4)]
    assert method.finished(state)

    first = CountedTarget(toy("gmm-2d"))
    begun, generator = method.init(small_flow(first.target), first), torch.Generator().manual_seed(5)
    again = [method.step(begun, generator=generator, progress=quiet) for _ in range(cut)]
    saved, random_state = copy.deepcopy(begun.save()), generator.get_state()
    other, other_generator = method.init(small_flow(first.target, seed=9), first), torch.Generator()
    other.restore(saved)
    other_generator.set_state(random_state)
    again += [method.step(other, generator=other_generator, progress=quiet) for _ in range(4 - cut)]
    assert repr(again) == repr(rows)
    assert first.ledger.to_json() == target.ledger.to_json()
    assert target.ledger["training"] == evaluations(config) == 2 * 3 * 64 + 2 * 1000
    for left, right in zip(state.result().parameters(), other.result().parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gaussian-skewed", "gmm-2d"])
def test_the_ladder_ends_at_the_target_with_every_mode(name: str) -> None:
    target = toy(name)
    config = replace(TA_BG_PRESETS.small, gradient_steps=100)
    if name == "gaussian-skewed":
        # Hotter than this, the density fills its box and is no Gaussian any more.
        config = replace(config, hot=4.0, rungs=3)
    rows, _, flow = trained(TABG(config), target)
    assert rows[-1].ess > 0.9
    assert rows[-1].log_z == pytest.approx(0.0, abs=0.01)
    assert rows[-1].log_z_path == pytest.approx(0.0, abs=0.05)
    entropies = [row.entropy for row in rows[config.pretrain_steps :]]
    assert entropies == sorted(entropies, reverse=True)
    with torch.no_grad():
        points = flow.sample(20_000, generator=torch.Generator().manual_seed(1)).double()
    found = torch.bincount(target.mode_of(points), minlength=len(target.modes)) / len(points)
    assert found == pytest.approx(target.modes, abs=0.03)
    if name == "gaussian-skewed":
        assert points.mean(0) == pytest.approx(torch.tensor([2.0, -1.0]).double(), abs=0.05)
        assert points.std(0) == pytest.approx(torch.tensor([0.5, 1.1]).double(), rel=0.05)
