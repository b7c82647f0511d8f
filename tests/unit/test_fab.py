"""FAB: annealing to p^2 / q, training, budgets and checkpoints."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.preset import Preset
from boltzport.experiments import request, run_training
from boltzport.flows import load_flow
from boltzport.targets import CountedTarget, Density, toy
from boltzport.training import StepInfo
from boltzport.training.methods import FAB, FABConfig, method_entry
from boltzport.training.methods.fab import FABState, bootstrap, evaluations, within_budget
from boltzport.training.methods.fab.bootstrap import typical_widths
from boltzport.training.presets import FAB_PRESETS
from trainings import quiet, small_flow, trained

SMALL = FABConfig(
    steps=2,
    passes=2,
    gradient_steps=3,
    batch_size=100,
    intermediate=2,
    leapfrog=3,
    buffer_min=300,
    buffer_max=450,
    learning_rate=3e-3,
    warmup=0,
)


def sizes(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# Annealing


def test_annealed_points_have_the_moments_of_p_squared_over_q() -> None:
    """From N(0, 1.5^2) to N((2, -1), diag(0.5, 1.1)^2): a Gaussian of precision 2 / s^2 - 1 / 1.5^2, by hand."""
    target = toy("gaussian-skewed")
    done = bootstrap(
        small_flow(target),
        CountedTarget(target),
        6000,
        step_sizes=sizes(0.5, 0.4, 0.3, 0.3),
        leapfrogs=4,
        generator=torch.Generator().manual_seed(0),
    )
    precision = 2 / torch.tensor([0.5**2, 1.1**2]) - 1 / 1.5**2
    mean = 2 * torch.tensor([2.0, -1.0]) / torch.tensor([0.5**2, 1.1**2]) / precision
    weights = torch.softmax(done.points.log_weights, 0)
    effective = float(1 / (weights**2).sum())
    assert effective > 300
    x = done.points.coordinates.double()
    found = (weights[:, None] * x).sum(0)
    variance = (weights[:, None] * (x - found) ** 2).sum(0)
    assert bool(((found - mean).abs() < 4.5 / (precision * effective).sqrt()).all())
    assert bool(((variance * precision - 1).abs() < 4.5 * math.sqrt(2 / effective)).all())
    # Its constant is that of p^2 / q; reweighted to p it is one, as p is normalised, and so it is for the flow's own.
    s2, b = torch.tensor([0.5**2, 1.1**2]), 2 * torch.tensor([2.0, -1.0]) / torch.tensor([0.5**2, 1.1**2])
    log_each = 0.5 * (2 * math.pi / precision).log() + b**2 / (2 * precision) - torch.tensor([4.0, 1.0]) / s2
    log_each = log_each - (2 * math.pi * s2).log() + 0.5 * math.log(2 * math.pi * 1.5**2)
    for log_weights, expected in (
        (done.log_weights, float(log_each.sum())),
        (done.log_annealed, 0.0),
        (done.log_flow, 0.0),
    ):
        scaled = (log_weights - expected).exp()
        assert abs(float(scaled.mean()) - 1) < 4.5 * float(scaled.std()) / 6000**0.5
    # Log densities that go with the points are those of the points.
    flow = small_flow(target)
    with torch.no_grad():
        torch.testing.assert_close(done.points.log_q.float(), flow.log_prob(done.points.coordinates))
    assert done.entropy == pytest.approx(2 * (0.5 * math.log(2 * math.pi * math.e) + math.log(1.5)), abs=0.05)


def test_chains_know_the_ends_of_an_interval_and_the_turns_of_a_circle() -> None:
    """No flow's sample fails; chains that would leave the interval stay, and those on the circle may go round."""
    layout = Layout([interval(-1.0, 1.0), circle()])
    target = Density(lambda x: 2.0 * x[:, 0] + 1.5 * (x[:, 1] - 3.0).cos(), layout)
    flow = small_flow(target, moved=0.2)
    done = bootstrap(
        flow,
        CountedTarget(target),
        4000,
        step_sizes=sizes(2.0, 2.0),
        leapfrogs=4,
        generator=torch.Generator().manual_seed(1),
    )
    x = done.points.coordinates
    assert done.failed == 0
    assert bool((x[:, 0].abs() <= 1).all())
    assert bool((x[:, 1].abs() > math.pi).any())
    assert bool((done.acceptance < 0.99).all())
    scaled = done.log_annealed.exp()
    # Integrals: sinh(2) and 2 pi I0(1.5).
    log_z = math.log(math.sinh(2.0)) + math.log(2 * math.pi * float(torch.special.i0(torch.tensor(1.5))))
    assert abs(float(scaled.mean()) / math.exp(log_z) - 1) < 4.5 * float(scaled.std() / scaled.mean()) / 4000**0.5
    assert typical_widths(Layout([interval(0.0, 4.0, width=0.3), circle(), interval(-2.0, 3.0)])).tolist() == [
        0.3,
        pytest.approx(0.2 * math.pi),
        0.5,
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_chains_stay_where_the_flow_is_also_half_way(count: int) -> None:
    """An exponential that the box cuts off: with an odd number of densities one of them is p, without the flow."""
    target = Density(lambda x: -x[:, 0], Layout([interval(0.0, 5.0)]))
    done = bootstrap(
        small_flow(target),
        CountedTarget(target),
        4000,
        step_sizes=sizes(*[2.0] * count),
        leapfrogs=2,
        generator=torch.Generator().manual_seed(3),
    )
    assert done.failed == 0
    for log_weights, expected in (
        (done.log_annealed, 1 - math.exp(-5)),
        (done.log_weights, 5 / 2 * (1 - math.exp(-10))),
    ):
        scaled = log_weights.exp()
        assert abs(float(scaled.mean()) - expected) < 4.5 * float(scaled.std()) / 4000**0.5


def test_failed_points_are_left_out_and_counted() -> None:
    layout = Layout([interval(-3.0, 3.0, width=1.0)] * 2)
    target = Density(lambda x: torch.where(x[:, 0] > -1.0, -0.5 * (x**2).sum(1), torch.nan), layout)
    rows, counted, _ = trained(FAB(SMALL), target)
    assert all(0 < row.failed < 0.4 * 200 for row in rows)
    assert counted.ledger["failed"] > 0
    assert all(math.isfinite(row.loss) and math.isfinite(row.log_z) for row in rows)


# Training


def test_the_constant_along_the_path_is_given_where_it_is_another_estimate() -> None:
    """With one density between, its weights are those of the flow's own samples."""
    for intermediate, given in ((1, False), (2, True)):
        rows, _, _ = trained(FAB(replace(SMALL, intermediate=intermediate)), toy("gaussian-skewed"))
        assert all((row.log_z_path is not None) is given for row in rows)


def test_evaluations_are_counted_as_planned() -> None:
    """Each chain is evaluated with a force where it begins and in every leapfrog step, and nowhere else."""
    rows, counted, _ = trained(FAB(SMALL), toy("gmm-2d"))
    planned = 100 * (1 + 2 * 3) * (3 + 2 * 2)
    assert evaluations(SMALL) == planned
    assert counted.ledger.to_json() == {
        "startup": 0,
        "startup_gradients": 0,
        "training": planned,
        "training_gradients": planned,
        "monitoring": 0,
        "monitoring_gradients": 0,
        "evaluation": 0,
        "evaluation_gradients": 0,
        "failed": 0,
    }
    assert [row.gradient_steps for row in rows] == [6, 12]


@pytest.mark.parametrize("buffer_max", [450, 0])
def test_training_learns_a_gaussian(buffer_max: int) -> None:
    config = replace(
        SMALL, steps=4, passes=5, gradient_steps=6, batch_size=200, learning_rate=2e-2, buffer_max=4 * buffer_max
    )
    skewed = toy("gaussian-skewed")
    rows, _, flow = trained(FAB(config), skewed, flow=small_flow(skewed, pairs=1))
    assert rows[0].ess < 0.5
    assert rows[-1].ess > 0.8
    assert rows[-1].log_z == pytest.approx(0.0, abs=5 * rows[-1].log_z_error + 0.01)
    assert rows[-1].log_z_path == pytest.approx(0.0, abs=0.1)
    with torch.no_grad():
        x = flow.sample(4000, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(x.mean(0), torch.tensor([2.0, -1.0]), atol=0.12, rtol=0)
    torch.testing.assert_close(x.std(0), torch.tensor([0.5, 1.1]), atol=0.25, rtol=0)


@pytest.mark.parametrize(("first", "turn"), [(0.01, 1), (5.0, -1)])
def test_step_sizes_follow_the_acceptance(first: float, turn: int) -> None:
    counted = CountedTarget(toy("gaussian-skewed"))
    for tune in (True, False):
        method = FAB(replace(SMALL, passes=4, gradient_steps=1, buffer_min=0, step_size=first, tune=tune))
        state = method.init(small_flow(counted.target), counted)
        row = method.step(state, generator=torch.Generator().manual_seed(0), progress=quiet)
        assert turn * (row.acceptance - 0.65) > 0.2
        change = state.step_sizes.log() - math.log(first)
        assert bool((turn * change > 0.2).all()) if tune else bool((change == 0).all())


@pytest.mark.parametrize("buffer_max", [450, 0])
def test_a_restored_state_goes_on_bit_for_bit(buffer_max: int) -> None:
    config = replace(SMALL, steps=4, buffer_max=buffer_max, average=0.9, weight_decay=1e-3)
    method = FAB(config)
    straight = CountedTarget(toy("gmm-2d"))
    state, generator = method.init(small_flow(straight.target), straight), torch.Generator().manual_seed(5)
    rows = [method.step(state, generator=generator, progress=quiet) for _ in range(2)]
    saved, random_state, ledger = copy.deepcopy(state.save()), generator.get_state(), straight.ledger.to_json()
    rows += [method.step(state, generator=generator, progress=quiet) for _ in range(2)]
    assert method.finished(state)

    resumed = CountedTarget(toy("gmm-2d"), type(straight.ledger)(ledger))
    other, other_generator = method.init(small_flow(resumed.target, seed=9), resumed), torch.Generator()
    other.restore(saved)
    other_generator.set_state(random_state)
    assert [method.step(other, generator=other_generator, progress=quiet) for _ in range(2)] == rows[2:]
    assert resumed.ledger.to_json() == straight.ledger.to_json()
    for left, right in zip(state.result().parameters(), other.result().parameters(), strict=True):
        assert torch.equal(left, right)
    for one, two in zip(state.replay, other.replay, strict=True):
        assert torch.equal(one, two)
    assert torch.equal(state.step_sizes, other.step_sizes)


def test_a_run_goes_on_from_its_file(tmp_path, monkeypatch) -> None:
    """Interrupted after its first step and resumed, it ends with the flow of a run that nothing interrupted."""
    texts = "steps=3 passes=1 gradient_steps=2 batch_size=50 intermediate=2 leapfrog=2 buffer_min=100 pairs=1 hidden=8"
    config = request("gmm-2d", method="fab", settings=texts.split(), seed=4)
    assert run_training(config, tmp_path / "whole").status.state == "done"
    step = FAB.step

    def once(method: FAB, state: FABState, **others: object) -> StepInfo:
        if state.step:
            raise KeyboardInterrupt
        return step(method, state, **others)

    with monkeypatch.context() as patched:
        patched.setattr(FAB, "step", once)
        assert run_training(config, tmp_path / "parts").status.state == "interrupted"
    done = run_training(config, tmp_path / "parts", resume=True)
    assert (done.status.step, done.ledger.cost) == (3, 50 * 5 * (2 + 3))
    flows = [load_flow(tmp_path / name / "flow.safetensors") for name in ("whole", "parts")]
    for one, two in zip(*(flow.parameters() for flow in flows), strict=True):
        assert torch.equal(one, two)
    assert (tmp_path / "parts" / "ledger.json").read_text() == (tmp_path / "whole" / "ledger.json").read_text()


def test_a_step_that_fails_leaves_the_state_as_it_was() -> None:
    layout = Layout([interval(-3.0, 3.0, width=1.0)] * 2)
    broken = False

    def log_density(x: Tensor) -> Tensor:
        return (-0.5 * (x**2).sum(1)) * (math.nan if broken else 1.0)

    target = CountedTarget(Density(log_density, layout))
    method, generator = FAB(SMALL), torch.Generator().manual_seed(0)
    state = method.init(small_flow(target.target), target)
    method.step(state, generator=generator, progress=quiet)
    before, broken = copy.deepcopy(state.save()), True
    with pytest.raises(RunError, match="100 of 100 annealed points have no finite density"):
        method.step(state, generator=generator, progress=quiet)
    assert state.step == 1
    assert torch.equal(state.step_sizes, before["step_sizes"])
    for name, value in state.flow.state_dict().items():
        assert torch.equal(value, before["flow"][name])


def test_a_target_without_a_gradient_is_refused() -> None:
    target = Density(lambda x: -0.5 * (x.detach() ** 2).sum(1), Layout([interval(-3.0, 3.0)] * 2))
    with pytest.raises(InputError, match="fab needs a target with a gradient"):
        trained(FAB(SMALL), target)


# Settings


@pytest.mark.parametrize(
    ("system", "row"),
    [
        # Batch size, learning rate, gradient steps, intermediate densities, inner steps, evaluations: the paper's.
        ("alanine-dipeptide", (1024, 1e-4, 50_000, 8, 4, "2.13e+08")),
        ("alanine-tetrapeptide", (1024, 1e-4, 50_000, 8, 4, "2.13e+08")),
        ("alanine-hexapeptide", (1024, 1e-4, 50_000, 8, 8, "4.2e+08")),
        ("elil-tetrapeptide", (2048, 2e-4, 25_000, 16, 8, "8.43e+08")),
    ],
)
def test_the_paper_preset_is_the_papers_table(system: str, row: tuple) -> None:
    found = FAB_PRESETS.paper[system]
    gradient_steps = found.steps * found.passes * found.gradient_steps
    table = (found.batch_size, found.learning_rate, gradient_steps, found.intermediate, found.leapfrog)
    assert (*table, f"{evaluations(found):.3g}") == row
    assert (found.weight_decay, found.warmup, found.max_gradient_norm) == (1e-5, 1000, 1000.0)
    assert (found.step_size, found.schedule.value, found.average) == (0.05, "cosine", 0.0)


@pytest.mark.parametrize("budget", [1700.0, 20_000.0, 123_456.0, 2e6, 1e9])
def test_a_budget_is_kept_and_used(budget: float) -> None:
    config = FABConfig(steps=40, batch_size=100, buffer_min=5000)
    found = within_budget(config, budget)
    assert evaluations(found) <= budget
    # What is left over is less than a step of one pass more.
    assert evaluations(replace(found, passes=found.passes + 1)) > budget
    assert found.buffer_min <= config.buffer_min
    assert found.warmup == min(100, found.steps * found.passes * found.gradient_steps // 10)
    assert method_entry("fab").within_budget(config, budget) == found


def test_a_budget_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="at least 17000"):
        within_budget(FABConfig(), 16_999.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"passes": 0}, "passes: expected at least 1, got 0"),
        ({"intermediate": 0}, "intermediate: expected 1 to 1000, got 0"),
        ({"clip": 0.5}, "clip: expected at least 1, got 0.5"),
        ({"step_size": 0.0}, "step_size: expected more than 0, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate: expected more than 0 and finite, got nan"),
        ({"average": 1.0}, "average: expected 0 to 0.999999, got 1.0"),
    ],
)
def test_what_is_out_of_range_is_said(change: dict, message: str) -> None:
    with pytest.raises(InputError) as caught:
        FABConfig(**change)
    assert str(caught.value) == message


def test_a_configuration_survives_its_file(tmp_path) -> None:
    for preset in (Preset.QUICK, Preset.LAPTOP):
        config = request("gmm-40", method="fab", preset=preset, settings=["tune=false", "schedule=constant"])
        config.save(tmp_path / "config.toml")
        assert type(config).load(tmp_path / "config.toml") == config
        assert isinstance(config.settings, FABConfig)
