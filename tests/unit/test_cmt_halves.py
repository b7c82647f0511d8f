"""Constrained mass transport that learns the halves of a flow apart, on a target with a known constant."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import reweighting
from boltzport.flows import Flow, MolecularConfig, MolecularFlow
from boltzport.targets import CountedTarget, Density, Evaluated, Target
from boltzport.training import Algorithm, StepInfo, draw
from boltzport.training.fit import FitData
from boltzport.training.methods import CMT, CMTConfig
from boltzport.training.methods.cmt import apart as apart_module
from boltzport.training.methods.cmt import method as method_module
from boltzport.training.methods.cmt.budget import within_budget
from boltzport.training.methods.cmt.dual import Bounds, solve
from boltzport.training.methods.cmt.learners import Lesson
from boltzport.training.methods.cmt.path import PathPoint, log_weights
from boltzport.training.methods.cmt.state import CMTState
from boltzport.training.methods.cmt.wide import draw_wide, mixed
from molecular_flows import seeded
from trainings import quiet, small_flow, trained

LAYOUT = Layout(
    [
        interval(0.05, 0.2, centre=0.11, width=0.02),
        circle(),
        interval(-5.0, 5.0, centre=0.3, width=1.0),
    ]
)
MODES = ((0.75, 0.6, 9.0), (0.25, -2.2, 14.0))
"""Weight, place and concentration of the two modes of the torsion, as of von Mises densities."""
BOND, OTHER = 0.008, 0.5
"""Widths of the stiff coordinates given the torsion."""
CONSTANT = 3.7
LOG_Z = CONSTANT + math.log(2 * math.pi * BOND * OTHER)

SMALL = CMTConfig(
    trust_region=0.5,
    entropy=math.inf,
    steps=60,
    arrive=True,
    control=True,
    apart=True,
    buffer_size=2000,
    gradient_steps=60,
    batch_size=250,
    learning_rate=2e-2,
    warmup=5,
    stiff_steps=25,
    stiff_batch=60,
    stiff_rate=1e-2,
    refine=4,
    refine_buffer=3000,
    refine_steps=100,
    refine_batch=500,
    refine_rate=5e-3,
    refine_stiff_steps=40,
    refine_stiff_batch=100,
    pool=2,
    broader=0.25,
    max_gradient_norm=10.0,
)
CHAINS = replace(SMALL, chains=600, leapfrogs=5, broader=0.0)
QUICK = replace(SMALL, gradient_steps=5, stiff_steps=5, refine_steps=5, refine_stiff_steps=5, buffer_size=1000)
"""For laws that hold however well it learns."""


def log_density(x: Tensor) -> Tensor:
    """Two modes of the torsion, and normal stiff coordinates whose means the torsion decides."""
    x = x.double()
    bond, torsion, other = x.unbind(1)
    modes = [
        math.log(part) + k * (torch.cos(torsion - place) - 1) - math.log(2 * math.pi) - _log_i0e(k)
        for part, place, k in MODES
    ]
    mean = 0.11 + 0.01 * torch.cos(torsion)
    tilt = 0.4 * torch.sin(torsion) + 20.0 * (bond - mean)
    stiff = -0.5 * ((bond - mean) / BOND) ** 2 - 0.5 * ((other - tilt) / OTHER) ** 2
    return CONSTANT + torch.logsumexp(torch.stack(modes), 0) + stiff


def _log_i0e(k: float) -> float:
    return math.log(float(torch.special.i0e(torch.tensor(k, dtype=torch.float64))))


TARGET = Density(log_density, LAYOUT)


def new_flow(seed: int = 0) -> MolecularFlow:
    config = MolecularConfig(bins=8, harmonics=2, torsion_hidden=(16,), pairs=1, hidden=(16,))
    return MolecularFlow(LAYOUT, config, generator=seeded(seed), compiled=False)


def run(config: CMTConfig, target: Target = TARGET, seed: int = 0) -> tuple[list[StepInfo], CountedTarget, Flow]:
    return trained(CMT(config), target, seed=seed, flow=new_flow(seed))


def check_learned(flow: Flow) -> None:
    """The density, its constant, and both modes with their weights."""
    with torch.no_grad():
        samples = flow.sample_and_log_prob(20_000, generator=seeded(99))
    found = reweighting(log_density(samples.coordinates) - samples.log_q.double())
    assert found.ess > 0.5
    assert found.log_z.value == pytest.approx(LOG_Z, abs=5 * found.log_z.error + 1e-3)
    assert found.elbo == pytest.approx(LOG_Z, abs=0.5)
    # The lesser mode holds a quarter of the points, before any reweighting.
    part = float((torch.cos(samples.coordinates[:, 1] - MODES[1][1]) > 0.5).double().mean())
    assert part == pytest.approx(MODES[1][0], abs=0.08)


def test_the_constant_of_the_target_is_what_the_tests_take_it_for() -> None:
    n = 100
    u = torch.linspace(-8, 8, n, dtype=torch.float64)
    turn = 2 * math.pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n - math.pi
    total = 0.0
    for torsion in turn.tolist():
        bond, other = torch.cartesian_prod(0.11 + 0.01 * math.cos(torsion) + BOND * u, 0.4 * math.sin(torsion) + u).T
        points = torch.stack([bond, torch.full_like(bond, torsion), other], 1)
        total += float(log_density(points).exp().sum()) * BOND * float(u[1] - u[0]) ** 2 * 2 * math.pi / n
    assert math.log(total) == pytest.approx(LOG_Z, abs=1e-6)


def test_a_training_arrives_and_learns_both_halves_and_both_modes() -> None:
    rows, counted, flow = run(SMALL)
    annealing = [row for row in rows if row.beta is not None and row.beta < 1.0]
    assert 2 <= len(annealing) < SMALL.steps
    assert len(rows) <= len(annealing) + SMALL.refine + 1
    assert [row.step for row in rows] == list(range(1, len(rows) + 1))
    betas = [row.beta for row in rows if row.beta is not None]
    assert betas == sorted(betas)
    assert betas[-1] > 0.95
    check_learned(flow)
    assert rows[-1].log_z == pytest.approx(LOG_Z, abs=5 * (rows[-1].log_z_error or 0.0) + 1e-3)
    for row in rows:
        assert row.ess_torsions is not None
        assert row.ess_stiff is not None
        assert 0.0 < row.ess_torsions <= 1.0
        assert 0.0 < row.ess_stiff <= 1.0
    assert rows[-1].ess_torsions > max(0.7, rows[0].ess_torsions or 0.0)
    assert rows[-1].ess_stiff > max(0.7, rows[0].ess_stiff or 0.0)
    # Only the stiff half asks for slopes.
    anneal = len(rows) - SMALL.refine
    slopes = anneal * SMALL.stiff_steps * SMALL.stiff_batch
    slopes += SMALL.refine * SMALL.refine_stiff_steps * SMALL.refine_stiff_batch
    assert counted.ledger["training_gradients"] == slopes


@pytest.mark.parametrize("forward", [0.0, 0.5])
def test_with_chains_it_learns_both_halves_and_both_modes(forward: float) -> None:
    rows, counted, flow = run(replace(CHAINS, stiff_forward=forward))
    check_learned(flow)
    assert rows[-1].ess_torsions is not None
    assert rows[-1].ess_torsions > 0.7
    # Trajectories ask for slopes as well: one for every leapfrog step of every chain, and more.
    plain = (len(rows) - SMALL.refine) * SMALL.stiff_steps * SMALL.stiff_batch
    plain += SMALL.refine * SMALL.refine_stiff_steps * SMALL.refine_stiff_batch
    trajectories = len(rows) * CHAINS.chains * CHAINS.leapfrogs
    assert counted.ledger["training_gradients"] - (1.0 - forward) * plain == pytest.approx(trajectories, rel=0.5)


def test_without_slopes_there_are_no_chains() -> None:
    target = Density(log_density, LAYOUT, differentiable=False)
    (first, _, one), (second, _, other) = (run(replace(QUICK, chains=n, broader=0.0), target) for n in (0, 600))
    assert first == second
    assert all(map(torch.equal, one.parameters(), other.parameters()))


def test_without_slopes_it_learns_by_weights_alone() -> None:
    def forbidding(x: Tensor) -> Tensor:
        assert not x.requires_grad
        return log_density(x)

    rows, counted, flow = run(SMALL, Density(forbidding, LAYOUT, differentiable=False))
    assert counted.ledger["training_gradients"] == 0
    assert rows[-1].ess_stiff is not None
    check_learned(flow)


def test_a_flow_without_halves_learns_as_a_whole() -> None:
    method = CMT(replace(QUICK, steps=2, arrive=False, refine=0))
    rows, _, _ = trained(method, TARGET, flow=small_flow(TARGET))
    assert len(rows) == 2
    assert [(row.ess_torsions, row.ess_stiff) for row in rows] == [(None, None)] * 2


def stepped(method: CMT, state: CMTState, generator: torch.Generator, n: int) -> list[StepInfo]:
    return [method.step(state, generator=generator, progress=quiet) for _ in range(n)]


def numbers(state: CMTState) -> dict[str, object]:
    return {name: value for name, value in vars(state).items() if isinstance(value, int | float | list)}


@pytest.mark.parametrize("chains", [0, 300])
@pytest.mark.parametrize("differentiable", [True, False])
@pytest.mark.parametrize("phase", ["annealing", "arrival", "refinement"])
def test_a_restored_state_goes_on_bit_for_bit(phase: str, differentiable: bool, chains: int) -> None:
    config = replace(
        QUICK,
        average=0.9,
        trust_region=2.0,
        steps=3,
        multiplier=1.0,
        stiff_algorithm=Algorithm.SOAP,
        renew=7,
        chains=chains,
    )
    method, target = CMT(config), CountedTarget(Density(log_density, LAYOUT, differentiable=differentiable))
    state, generator = method.init(new_flow(), target), seeded(5)
    stepped(method, state, generator, {"annealing": 1, "arrival": 3, "refinement": 5}[phase])
    assert state.refining == (phase != "annealing")
    assert state.refined == {"annealing": 0, "arrival": 0, "refinement": 2}[phase]
    saved, random_state = copy.deepcopy(state.save()), generator.get_state()
    other, other_generator = method.init(new_flow(seed=9), target), torch.Generator()
    other.restore(saved)
    assert numbers(other) == numbers(state)
    other_generator.set_state(random_state)
    assert method.steps_left(other) == method.steps_left(state)
    first, second = stepped(method, state, generator, 2), stepped(method, other, other_generator, 2)
    assert first == second
    assert method.finished(state) == method.finished(other)
    assert numbers(other) == numbers(state)
    for left, right in zip(state.result().parameters(), other.result().parameters(), strict=True):
        assert torch.equal(left, right)
    assert any(
        not torch.equal(new, old) for new, old in zip(state.flow.parameters(), new_flow().parameters(), strict=True)
    )


def test_a_checkpoint_is_plain(tmp_path: Path) -> None:
    """What `torch.load` reads with `weights_only`, in the refinement as well."""
    config = replace(QUICK, steps=1, multiplier=1.0)
    method, target = CMT(config), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(6)
    stepped(method, state, generator, 2)
    assert state.refined == 1
    torch.save(state.save(), tmp_path / "state.pt")
    other = method.init(new_flow(seed=1), target)
    other.restore(torch.load(tmp_path / "state.pt", weights_only=True))
    assert other.refined == 1
    assert all(torch.equal(one, two) for one, two in zip(state.flow.parameters(), other.flow.parameters(), strict=True))


@pytest.mark.parametrize(("renew", "chains"), [(0, 0), (300, 0), (0, 300)])
@pytest.mark.parametrize("budget", [20_000, 45_000, 90_000])
def test_the_budget_is_never_exceeded(budget: int, renew: int, chains: int) -> None:
    config = replace(QUICK, budget=float(budget), refine=6, renew=renew, chains=chains)
    rows, counted, _ = run(config)
    assert counted.ledger.total <= budget
    assert rows
    each = max(config.step_evaluations(refining=refining) for refining in (False, True))
    # It ends since a further step would exceed it, or since all is done.
    assert counted.ledger.total > budget - each - QUICK.refine_buffer or len(rows) > 6


def test_new_tries_of_a_step_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the last step, which nobody foresees, may go beyond the budget."""
    tries = iter(range(1000))
    monkeypatch.setattr(method_module, "_failure", lambda *_: "" if next(tries) % 3 == 2 else "for the test")
    config = replace(QUICK, budget=20_000.0, stiff_steps=30)
    rows, counted, _ = run(config)
    assert [row.retries for row in rows] == [2] * len(rows)
    descent = config.stiff_steps * config.stiff_batch
    assert counted.ledger["training_gradients"] == 3 * len(rows) * descent
    assert counted.ledger.total <= config.budget + 2 * descent


def test_every_new_try_has_half_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, tries = [], iter(range(1000))
    learn = apart_module.Apart.learn

    def watched(self: apart_module.Apart, lesson: Lesson, **rest: object) -> object:
        rates.append(lesson.rate)
        return learn(self, lesson, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(apart_module.Apart, "learn", watched)
    monkeypatch.setattr(method_module, "_failure", lambda *_: "" if next(tries) == 2 else "for the test")
    method, target = CMT(QUICK), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(6)
    stepped(method, state, generator, 1)
    assert rates == [1.0, 0.5, 0.25]


def test_settings_are_made_to_fit_a_budget() -> None:
    config = within_budget(replace(SMALL, buffer_size=20_000, refine_buffer=40_000), 1e5)
    assert config.buffer_size < 20_000
    rows, counted, _ = run(config)
    assert counted.ledger.total <= 100_000
    assert rows[-1].beta == 1.0


def test_halves_are_not_learned_from_former_buffers() -> None:
    with pytest.raises(InputError, match="reuse: expected 0"):
        replace(SMALL, reuse=2)


def test_a_fit_that_leaves_the_torsions_worse_is_undone_in_the_refinement() -> None:
    """At a rate that throws a fit out the torsions stay what they were, and the stiff half goes on learning."""
    method, target = CMT(replace(QUICK, refine_rate=30.0, refine_steps=20)), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(3)
    state.step = 1
    state.arrive()
    flow = state.flow
    assert isinstance(flow, MolecularFlow)
    halves = ([value.detach().clone() for value in half] for half in (flow.torsion_parameters, flow.stiff_parameters))
    torsions, stiff = halves
    method.step(state, generator=generator, progress=quiet)
    assert all(map(torch.equal, torsions, flow.torsion_parameters))
    assert not all(map(torch.equal, stiff, flow.stiff_parameters))


class Curved(Target):
    """The target with a measure of its own, which is not that of the coordinates."""

    name, layout = TARGET.name, TARGET.layout

    def evaluate(self, coordinates: Tensor) -> Evaluated:
        volume = 0.3 * coordinates[:, 2].double() + 5.0 * coordinates[:, 0].double()
        return Evaluated(log_density(coordinates) - volume, volume)


def test_the_stiff_half_descends_towards_the_density_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """With respect to the target's measure it is q_0^(1 - beta) p^(alpha beta); the volume takes it to coordinates."""
    seen: list[Callable[[Tensor], Tensor]] = []
    monkeypatch.setattr(apart_module, "descend_stiff", lambda _flow, _optimiser, log, *_, **__: seen.append(log))
    method, target = CMT(replace(QUICK, trust_region=0.1)), CountedTarget(Curved())
    state = method.init(new_flow(), target)
    method.step(state, generator=seeded(4), progress=quiet)
    assert 0.0 < state.point.beta < 0.9
    with torch.no_grad():
        x = state.flow.sample(50, generator=seeded(5))
        log_p, volume = Curved().evaluate(x)
        log_initial = state.flow.initial_log_prob(x).double() - volume
    torch.testing.assert_close(seen[0](x), state.point.log_density(log_initial, log_p) + volume)


def skewed_flow(seed: int, size: float) -> MolecularFlow:
    """A flow whose torsion and stiff coordinates are somewhere."""
    flow, generator = new_flow(seed), seeded(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator)
    return flow


def known_means() -> tuple[float, float]:
    """Means of the cosine and sine of the torsion: those of von Mises densities."""
    ratios = [float(torch.special.i1e(torch.tensor(k)) / torch.special.i0e(torch.tensor(k))) for _, _, k in MODES]
    pairs = list(zip(MODES, ratios, strict=True))
    return (
        sum(part * ratio * math.cos(place) for (part, place, _), ratio in pairs),
        sum(part * ratio * math.sin(place) for (part, place, _), ratio in pairs),
    )


def test_points_of_a_broader_flow_and_of_the_present_one_are_a_sample_of_the_target() -> None:
    present, broader = skewed_flow(1, 0.2), skewed_flow(2, 0.05)
    target = CountedTarget(TARGET)
    buffer = draw(present, target, 60_000, generator=seeded(3), progress=quiet).buffer
    solution = solve(buffer.log_q, buffer.log_p, Bounds(trust_region=math.inf))
    log_ratio = log_weights(buffer.log_q, buffer.log_p, solution.multipliers) - solution.change.log_z
    lesson = Lesson(buffer, log_ratio, solution, PathPoint(alpha=1.0, beta=1.0), (0.0, 1.0))
    wide = draw_wide(present, broader, target, lesson, 40_000, generator=seeded(4))
    assert target.ledger.total == 100_000
    torsions = buffer.coordinates[:, present.torsions]
    with torch.no_grad():
        log_drawn = present.log_prob_of_torsions(torsions).double()
    data = mixed(FitData(torsions, log_ratio, log_drawn, log_drawn), wide, broader)
    weights, angle = data.log_weights.exp(), data.coordinates[:, 0].double()
    for function, expected in zip((torch.cos, torch.sin), known_means(), strict=True):
        values = weights * (function(angle) - expected)
        assert abs(float(values.mean())) < 5 * float(values.std()) / math.sqrt(len(values))
    # Normalised by the constant that the present flow's points give, which has an error of its own.
    assert float(weights.mean()) == pytest.approx(1.0, abs=0.05)
    # The present flow in units of the mixture has the mean one: the mixture is what the points were drawn from.
    with torch.no_grad():
        ratio = (present.log_prob_of_torsions(data.coordinates).double() - data.log_drawn).exp()
    assert float(ratio.mean()) == pytest.approx(1.0, abs=5 * float(ratio.std()) / math.sqrt(len(ratio)))
    assert float(ratio.max()) <= 1 / 0.6 + 1e-4
    # Weights of the mixture are smaller where the present flow has too little.
    assert float(weights.max()) < float(log_ratio.exp().max())


def test_a_broader_flow_is_remembered_and_its_points_are_counted() -> None:
    config = replace(QUICK, trust_region=2.0, steps=3, multiplier=1.0, refine=2)
    method, target = CMT(config), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(5)
    stepped(method, state, generator, 1)
    assert state.learner.save()["broader"] is None
    stepped(method, state, generator, 2)
    remembered = state.learner.save()["broader"]
    assert remembered is not None
    before = target.ledger.total
    stepped(method, state, generator, 1)
    assert target.ledger.total - before == config.step_evaluations(refining=True)
    after = state.learner.save()["broader"]
    assert all(torch.equal(remembered[name], after[name]) for name in remembered)
    assert any(not torch.equal(remembered[name], value) for name, value in state.flow.state_dict().items())


def test_once_arrived_the_stiff_half_is_renewed_if_asked_for() -> None:
    config = replace(SMALL, renew=150, refine_stiff_steps=10)
    rows, counted, flow = run(config)
    check_learned(flow)
    anneal = len(rows) - config.refine
    slopes = anneal * config.stiff_steps * config.stiff_batch
    # The first refining step has the renewal instead of its own descent.
    slopes += (config.renew + (config.refine - 1) * config.refine_stiff_steps) * config.refine_stiff_batch
    assert counted.ledger["training_gradients"] == slopes
    assert rows[-1].ess_stiff is not None
    assert rows[-1].ess_stiff > 0.7


def test_averages_do_not_hold_on_to_a_half_that_was_renewed() -> None:
    method, target = CMT(replace(QUICK, renew=5, average=0.9)), CountedTarget(TARGET)
    state, generator = method.init(skewed_flow(0, 0.1), target), seeded(3)
    state.step = 1
    state.arrive()
    method.step(state, generator=generator, progress=quiet)
    flow, result = state.flow, state.result()
    assert isinstance(flow, MolecularFlow)
    assert isinstance(result, MolecularFlow)
    assert all(map(torch.equal, result.stiff_parameters, flow.stiff_parameters))


def test_a_renewal_draws_its_own_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would overfit those of the chains; the descents before and after it learn from them."""
    seen: list[bool] = []
    monkeypatch.setattr(apart_module, "descend_stiff", lambda *_, known, **__: seen.append(known is not None))
    config = replace(QUICK, trust_region=2.0, steps=1, multiplier=1.0, renew=5, chains=100)
    method, target = CMT(config), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(5)
    stepped(method, state, generator, 3)
    assert seen == [True, False, True]
