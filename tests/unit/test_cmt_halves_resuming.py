"""Training by halves: it resumes bit for bit, keeps to its budget, and retries a failed step with half the rate."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from boltzport.targets import CountedTarget, Density
from boltzport.training import Algorithm
from boltzport.training.methods import CMT
from boltzport.training.methods.cmt import apart as apart_module
from boltzport.training.methods.cmt import method as method_module
from boltzport.training.methods.cmt.budget import within_budget
from boltzport.training.methods.cmt.learners import Lesson
from halved_target import (
    LAYOUT,
    QUICK,
    SMALL,
    TARGET,
    log_density,
    new_flow,
    numbers,
    run,
    stepped,
)
from molecular_flows import seeded


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


def test_retries_of_a_step_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of the last step, which nobody foresees, may go beyond the budget."""
    trials = iter(range(1000))
    monkeypatch.setattr(method_module, "_failure", lambda *_: "" if next(trials) % 3 == 2 else "for the test")
    config = replace(QUICK, budget=20_000.0, stiff_steps=30)
    rows, counted, _ = run(config)
    assert [row.retries for row in rows] == [2] * len(rows)
    descent = config.stiff_steps * config.stiff_batch
    assert counted.ledger["training_gradients"] == 3 * len(rows) * descent
    assert counted.ledger.total <= config.budget + 2 * descent


def test_every_new_try_has_half_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, trials = [], iter(range(1000))
    learn = apart_module.Apart.learn

    def watched(self: apart_module.Apart, lesson: Lesson, **rest: object) -> object:
        rates.append(lesson.rate)
        return learn(self, lesson, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(apart_module.Apart, "learn", watched)
    monkeypatch.setattr(method_module, "_failure", lambda *_: "" if next(trials) == 2 else "for the test")
    method, target = CMT(QUICK), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(6)
    stepped(method, state, generator, 1)
    assert rates == [1.0, 0.5, 0.25]


def test_a_step_whose_weights_fail_keeps_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was learned before the retry, so a smaller rate would not help."""
    rates, shares = [], iter([0.0, 0.0])
    learn, fraction = apart_module.Apart.learn, method_module.effective_fraction

    def watched(self: apart_module.Apart, lesson: Lesson, **rest: object) -> object:
        rates.append(lesson.rate)
        return learn(self, lesson, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(apart_module.Apart, "learn", watched)
    monkeypatch.setattr(method_module, "effective_fraction", lambda weights: next(shares, fraction(weights)))
    method, target = CMT(QUICK), CountedTarget(TARGET)
    state, generator = method.init(new_flow(), target), seeded(6)
    (row,) = stepped(method, state, generator, 1)
    assert row.retries == 2
    assert rates == [1.0]


def test_settings_are_made_to_fit_a_budget() -> None:
    config = within_budget(replace(SMALL, buffer_size=20_000, refine_buffer=40_000), 1e5)
    assert config.buffer_size < 20_000
    rows, counted, _ = run(config)
    assert counted.ledger.total <= 100_000
    assert rows[-1].beta == 1.0
