"""What holds for every method of the table: it resumes bit for bit, counts what it evaluates, and has presets."""

import io
from typing import Any

import pytest
import torch

from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget, Ledger, toy
from boltzport.training import Method, State, StepInfo, WeightedPoints
from boltzport.training.methods import METHODS, method_entry
from boltzport.training.presets import METHOD_PRESETS, MethodPresets, Preset

TOY = "gmm-2d"
TINY: dict[str, dict[str, Any]] = {
    "cmt": {"steps": 4, "gradient_steps": 5, "buffer_size": 500, "batch_size": 100, "average": 0.9, "reuse": 1},
    "forward-kl": {
        "steps": 4,
        "gradient_steps": 5,
        "batch_size": 100,
        "monitor": 300,
        "average": 0.9,
        "weight_decay": 1e-3,
    },
    "reverse-kl": {"steps": 4, "gradient_steps": 5, "batch_size": 100, "average": 0.9, "remove_highest": 7},
    "fab": {
        "steps": 4,
        "passes": 2,
        "gradient_steps": 2,
        "batch_size": 100,
        "intermediate": 2,
        "leapfrog": 2,
        "buffer_min": 150,
        "buffer_max": 400,
    },
    "ta-bg": {
        "hot": 3.0,
        "rungs": 2,
        "final": 1,
        "pretrain_steps": 2,
        "pretrain_gradient_steps": 5,
        "pretrain_batch": 100,
        "remove_highest": 7,
        "buffer_size": 500,
        "resampled_to": 400,
        "gradient_steps": 5,
        "batch_size": 100,
    },
}
"""Settings with which four steps take a second, by method."""


def tiny(name: str) -> Method[Any]:
    if name not in TINY:
        pytest.fail(f"{name} is in METHODS and has no settings here: give it a row in TINY")
    entry, samples = method_entry(name), None
    if entry.needs_samples:
        points = toy(TOY).sample(1000, generator=torch.Generator().manual_seed(11)).float()
        samples = WeightedPoints(points, torch.linspace(-1.0, 1.0, 1000, dtype=torch.float64))
    return entry.build(entry.config(**TINY[name]), samples)


def small_flow(seed: int) -> Flow:
    config, generator = CouplingConfig(pairs=2, hidden=(16,)), torch.Generator().manual_seed(seed)
    return CouplingFlow(toy(TOY).layout, config, generator=generator, compiled=False)


def advance(method: Method[Any], state: State, generator: torch.Generator, steps: int) -> list[StepInfo]:
    return [method.step(state, generator=generator, progress=lambda *_: None) for _ in range(steps)]


@pytest.mark.parametrize("name", METHODS)
def test_a_restored_state_goes_on_bit_for_bit(name: str) -> None:
    """Four steps against two, a checkpoint through its file, and two more with a new method, flow and target."""
    target, generator = CountedTarget(toy(TOY)), torch.Generator().manual_seed(5)
    method = tiny(name)
    state = method.init(small_flow(0), target)
    rows = advance(method, state, generator, 2)
    file = io.BytesIO()
    torch.save({"state": state.save(), "ledger": target.ledger.to_json(), "generator": generator.get_state()}, file)
    rows += advance(method, state, generator, 2)
    assert method.finished(state)

    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other_target, other_generator = CountedTarget(toy(TOY), Ledger(saved["ledger"])), torch.Generator()
    other_generator.set_state(saved["generator"])
    other_method = tiny(name)
    other = other_method.init(small_flow(9), other_target)
    other.restore(saved["state"])
    assert advance(other_method, other, other_generator, 2) == rows[2:]
    assert other_method.finished(other)
    for flows in ((state.flow, other.flow), (state.result(), other.result())):
        for left, right in zip(*(flow.parameters() for flow in flows), strict=True):
            assert torch.equal(left, right)
    assert other_target.ledger.to_json() == target.ledger.to_json()
    # The test compares nothing unless the flow moved, and in both halves.
    assert rows[1] != rows[3]
    moved = zip(state.flow.parameters(), small_flow(0).parameters(), strict=True)
    assert any(not torch.equal(left, right) for left, right in moved)


@pytest.mark.parametrize("done", [0, 2])
@pytest.mark.parametrize("name", METHODS)
def test_an_interrupted_step_leaves_no_trace(name: str, done: int) -> None:
    """It is interrupted at its last progress report, after the flow has moved; `ta-bg` begins a ladder in step 3."""
    method, generator = tiny(name), torch.Generator().manual_seed(5)
    state = method.init(small_flow(0), CountedTarget(toy(TOY)))
    advance(method, state, generator, done)
    before, random_state, calls = io.BytesIO(), generator.get_state(), []
    torch.save(state.save(), before)
    advance(method, state, generator, 1)
    whole = [parameter.detach().clone() for parameter in state.flow.parameters()]

    def restart() -> None:
        before.seek(0)
        state.restore(torch.load(before, weights_only=True))
        generator.set_state(random_state)
        calls.clear()

    restart()
    method.step(state, generator=generator, progress=lambda *_: calls.append(1))
    last = len(calls)
    restart()

    def interrupt(*_: object) -> None:
        calls.append(1)
        if len(calls) == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        method.step(state, generator=generator, progress=interrupt)
    assert state.step == done
    generator.set_state(random_state)
    advance(method, state, generator, 1)
    for left, right in zip(whole, state.flow.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", METHODS)
def test_rows_are_numbered_and_every_evaluation_is_counted(name: str) -> None:
    method, counts = tiny(name), []
    target = CountedTarget(toy(TOY))
    evaluate = target.target.evaluate

    def counting(points: torch.Tensor) -> Any:
        counts.append(len(points))
        return evaluate(points)

    target.target.evaluate = counting  # type: ignore[method-assign]
    state = method.init(small_flow(0), target)
    rows = advance(method, state, torch.Generator().manual_seed(0), 4)
    assert [row.step for row in rows] == [1, 2, 3, 4]
    assert rows[-1].gradient_steps == state.gradient_steps > 0
    assert all(row.ess is not None and row.log_z is not None for row in rows)
    assert target.ledger.total == sum(counts)


@pytest.mark.parametrize("name", METHODS)
def test_a_row_says_when_its_points_were_drawn(name: str) -> None:
    """Whether the flow was, at every evaluation of a step, that of its beginning, that of its end, or some between."""
    method, seen = tiny(name), []
    target, flow = CountedTarget(toy(TOY)), small_flow(0)
    evaluate = target.target.evaluate

    def weights() -> torch.Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in flow.parameters()])

    def watching(points: torch.Tensor) -> Any:
        seen.append(weights())
        return evaluate(points)

    target.target.evaluate = watching  # type: ignore[method-assign]
    state, generator = method.init(flow, target), torch.Generator().manual_seed(0)
    for _ in range(4):
        seen.clear()
        begin = weights()
        (row,) = advance(method, state, generator, 1)
        at_begin, at_end = (all(torch.equal(found, end) for found in seen) for end in (begin, weights()))
        assert not torch.equal(begin, weights())
        assert row.drawn == (0.0 if at_begin else 1.0 if at_end else 0.5)


@pytest.mark.parametrize("name", METHODS)
def test_rows_have_both_effective_sizes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fifth of the weights clipped, the one without is smaller and agrees with the error of log Z."""
    monkeypatch.setattr("boltzport.core.weights.CLIPPED", 0.2)
    method, target = tiny(name), CountedTarget(toy(TOY))
    for row in advance(method, method.init(small_flow(0), target), torch.Generator().manual_seed(0), 4):
        assert row.ess is not None
        assert row.ess_unclipped is not None
        assert row.log_z_error is not None
        assert row.ess_unclipped < row.ess
        points = (1 / row.ess_unclipped - 1) / row.log_z_error**2
        assert points == pytest.approx(round(points), rel=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_presets(name: str) -> None:
    presets = METHOD_PRESETS[name]
    assert isinstance(presets, MethodPresets)
    assert set(presets.molecules) == {Preset.QUICK, Preset.LAPTOP}
    papers = {"alanine-dipeptide", "alanine-tetrapeptide", "alanine-hexapeptide", "elil-tetrapeptide"}
    assert set(presets.paper) == papers
    everything = [*presets.paper.values(), *presets.molecules.values(), *presets.toys.values(), presets.small]
    assert all(isinstance(settings, method_entry(name).config) for settings in everything)
