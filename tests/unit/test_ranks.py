"""Laws of a training on several ranks; what each rank has, together, is what one rank would have."""

import copy
import io
import time
from typing import Any

import pytest
import torch

from boltzport.core import meeting
from boltzport.core.errors import LostProcess, RunError
from boltzport.core.parallel import Ranks, ranks
from boltzport.core.seeds import of_rank
from boltzport.targets import Ledger, Purpose, toy
from boltzport.training import Schedule, StepInfo, draw
from boltzport.training.buckets import Buckets
from boltzport.training.divided import joined
from boltzport.training.fit import FitConfig, FitData, divergence, fit, of_mean_one
from boltzport.training.methods.cmt import CMT, Bounds, CMTConfig, solve
from boltzport.training.optimiser import Optimiser, OptimiserConfig
from ranks import SETTINGS, advance, begun, on_ranks
from trainings import quiet, small_flow, trained


def through_a_file(checkpoint: dict[str, Any]) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(checkpoint, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def same(left: Any, right: Any) -> bool:
    """Whether nested records are equal to the last bit; NaN equals NaN."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left.nan_to_num(7.0), right.nan_to_num(7.0)) and left.dtype == right.dtype
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(*pair) for pair in zip(left, right, strict=True))
    return left == right or (left != left and right != right)


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_shares_add_up_and_differ_by_one_at_most(world: int) -> None:
    for n in (0, 1, 6, 50_001):
        shares = [Ranks(rank, world).share(n) for rank in range(world)]
        assert sum(shares) == n
        assert max(shares) - min(shares) <= 1


def test_what_the_ranks_have_is_joined_in_their_order() -> None:
    def work() -> tuple[torch.Tensor, list[float], float, bytes, float]:
        own = torch.arange(6.0).view(3, 2)[: ranks().rank] + 10 * ranks().rank
        held = torch.full((2,), float(ranks().rank))
        ranks().average([held])
        told = ranks().told(b"what rank 0 says" if ranks().leads else b"")
        return ranks().gather(own), ranks().total([1.0, ranks().rank]), ranks().mean(ranks().rank), told, float(held[1])

    joined = torch.tensor([[10.0, 11.0], [20.0, 21.0], [22.0, 23.0]])
    for gathered, totals, mean, told, held in on_ranks(3, work):
        assert torch.equal(gathered, joined)
        assert totals == [3.0, 3.0]
        assert (mean, told, held) == (1.0, b"what rank 0 says", 1.0)


def test_alone_everything_is_what_it_was() -> None:
    own = torch.randn(3)
    assert ranks().gather(own) is own
    assert ranks().mean(0.1) == 0.1
    ranks().average([own])
    assert ranks().traffic.calls == 0


def test_the_dual_on_gathered_densities_is_that_of_the_joint_buffer() -> None:
    generator = torch.Generator().manual_seed(0)
    log_q, log_p = (torch.randn(400, generator=generator, dtype=torch.float64) for _ in range(2))
    log_p *= 5.0
    bounds = Bounds(trust_region=0.2, entropy=0.3)

    def work() -> Any:
        own = slice(0, 150) if ranks().leads else slice(150, None)
        return solve(ranks().gather(log_q[own]), ranks().gather(log_p[own]), bounds)

    assert on_ranks(2, work) == [solve(log_q, log_p, bounds)] * 2


def test_weights_of_the_ranks_are_the_weights_of_all_points() -> None:
    log_weights = torch.tensor([0.0, 1.0, 3.0, -1.0, 2.0, 0.5], dtype=torch.float64)
    whole = of_mean_one(log_weights) / 6

    def work() -> torch.Tensor:
        own = log_weights[:2] if ranks().leads else log_weights[2:]
        return of_mean_one(own) / len(own) / ranks().world

    assert torch.cat(on_ranks(2, work)).allclose(whole)


@pytest.mark.parametrize("control", [False, True])
def test_the_averaged_gradient_is_that_of_the_joint_batch(control: bool) -> None:
    """Two ranks of 60 points with unlike weights, each in one batch, against all 120 in one batch."""
    target = toy("gmm-2d")
    flow = small_flow(target, moved=0.3).double()
    with torch.no_grad():
        points = flow.sample(120, generator=torch.Generator().manual_seed(1))
        log_drawn = flow.log_prob(points) + 0.3 * points[:, 0].sin()
    log_weights = torch.linspace(-3.0, 1.0, 120, dtype=torch.float64)
    config = OptimiserConfig(
        learning_rate=1e-3, warmup=0, schedule=Schedule.CONSTANT, weight_decay=0.0, max_gradient_norm=1e9, average=0.0
    )

    def work() -> tuple[list[torch.Tensor], float]:
        mine = copy.deepcopy(flow)
        own = slice(ranks().rank * 60, (ranks().rank + 1) * 60) if not ranks().alone else slice(None)
        data = FitData(points, log_weights, log_weights, log_drawn if control else None).part(own)
        sizes = FitConfig(gradient_steps=1, batch_size=120, hold_out=0.0)
        fitted = fit(
            mine.log_prob,
            Optimiser(mine.parameters(), config),
            data,
            sizes,
            generator=torch.Generator().manual_seed(2),
            progress=quiet,
            span=(0.0, 1.0),
        )
        gradients = [parameter.grad for parameter in mine.parameters() if parameter.grad is not None]
        return gradients, fitted.loss, divergence(flow.log_prob, data)

    joint, loss, far = work()
    for gradients, mean, apart in on_ranks(2, work):
        assert mean == pytest.approx(loss)
        assert apart == pytest.approx(far)
        for left, right in zip(gradients, joint, strict=True):
            assert torch.allclose(left, right, rtol=1e-9, atol=1e-12)
    assert any(gradient.abs().max() > 1e-3 for gradient in joint)


@pytest.mark.parametrize("size", [1, 300, 2**20])
def test_buckets_have_the_gradients_of_one_exchange(size: int) -> None:
    """To the last bit on two ranks, whatever their size; a parameter that a loss does not depend on stays without."""
    target = toy("gmm-2d")
    flow = small_flow(target, moved=0.3)
    unused = torch.nn.Parameter(torch.ones(3))
    with torch.no_grad():
        points = flow.sample(60, generator=torch.Generator().manual_seed(1))

    def work() -> tuple[list[Any], list[Any], int]:
        found = []
        mine = copy.deepcopy(flow)
        parameters = [*list(mine.parameters())[:3], unused, *list(mine.parameters())[3:]]
        buckets = Buckets(parameters, size=size)
        before = ranks().traffic.calls
        for shift in (0, 1, 2):
            # Twice with the order of the first pass, which each rank finds for itself.
            mine.zero_grad()
            loss = -mine.log_prob(points[30 * ranks().rank : 30 * (ranks().rank + 1) - shift]).mean()
            buckets.backward(loss)
            found.append([parameter.grad for parameter in mine.parameters()])
        calls, plain = ranks().traffic.calls - before, []
        for shift in (0, 1, 2):
            mine.zero_grad()
            (-mine.log_prob(points[30 * ranks().rank : 30 * (ranks().rank + 1) - shift]).mean()).backward()
            ranks().average([parameter.grad for parameter in mine.parameters()])
            plain.append([parameter.grad.clone() for parameter in mine.parameters()])
        return found, plain, calls

    results = on_ranks(2, work)
    for found, plain, calls in results:
        assert same(found, plain)
        assert same(found, results[0][0])
        assert calls >= 3 * (1 if size > 300 else 3)
    assert unused.grad is None


def test_ledgers_are_summed_once() -> None:
    def work() -> dict[str, int]:
        ledger = Ledger({"startup": 7})
        for _ in range(2):
            ledger.add(Purpose.TRAINING, evaluations=10 + ranks().rank, gradients=1)
            ledger.agree()
        return ledger.to_json()

    for found in on_ranks(2, work):
        assert (found["startup"], found["training"], found["training_gradients"]) == (7, 42, 4)


@pytest.mark.parametrize("name", SETTINGS)
def test_two_ranks_agree_and_cost_what_one_costs(name: str) -> None:
    def work() -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, int], dict[str, Any], int]:
        training, counts = begun(name), []
        target = training.state.target.target
        evaluate = target.evaluate

        def counting(points: torch.Tensor) -> Any:
            counts.append(len(points))
            return evaluate(points)

        target.evaluate = counting  # type: ignore[method-assign]
        rows, ledger = advance(training), training.ledger.to_json()
        return rows, training.state.flow.state_dict(), ledger, training.checkpoint(), sum(counts)

    (rows, flow, ledger, saved, counted), other = on_ranks(2, work)
    assert same(rows, other[0])
    assert Ledger(ledger).total == counted + other[4]
    assert min(counted, other[4]) > 0.4 * Ledger(ledger).total
    assert same(flow, other[1])
    assert same(saved["state"], other[3]["state"])
    assert len({part.numpy().tobytes() for part in saved["generators"]}) == 2
    one = begun(name)
    expected = advance(one)
    assert ledger == other[2]
    if name != "halves":
        # How many proposals the chains accept, which they then evaluate with a gradient, is chance.
        assert ledger == one.ledger.to_json()
    assert [row["step"] for row in rows] == [row["step"] for row in expected]
    assert all((row["log_z"] is None) == (alone["log_z"] is None) for row, alone in zip(rows, expected, strict=True))


@pytest.mark.parametrize("name", SETTINGS)
def test_two_ranks_resume_bit_for_bit(name: str) -> None:
    def whole() -> tuple[Any, ...]:
        training = begun(name)
        advance(training, 1)
        saved = through_a_file(training.checkpoint())
        return saved, advance(training), training.state.save(), training.checkpoint()

    (saved, rows, state, last), (_, _, other_state, _) = on_ranks(2, whole)

    def resumed() -> tuple[Any, ...]:
        training = begun(name, saved)
        return advance(training), training.state.save(), training.checkpoint()

    (again, restored, ended), (_, other_restored, _) = on_ranks(2, resumed)
    assert same(again, rows[1:])
    assert same(restored, state)
    assert same(other_restored, other_state)
    assert same(ended["state"], last["state"])
    assert same(ended["generators"], last["generators"])


@pytest.mark.parametrize(("name", "before", "after"), [("cmt", 2, 1), ("halves", 1, 2), ("fab", 2, 3)])
def test_another_number_of_ranks_shares_the_points_anew(name: str, before: int, after: int) -> None:
    def whole() -> Any:
        training = begun(name)
        advance(training, 1)
        return through_a_file(training.checkpoint())

    saved, *_ = on_ranks(before, whole)

    def resumed() -> Any:
        training = begun(name, saved)
        kept = joined(training.state.save(), training.state.divided)[0]
        advance(training)
        return kept, training.ledger.to_json(), training.state.flow.state_dict()

    found = on_ranks(after, resumed)
    for kept, ledger, flow in found:
        assert same(kept, saved["state"])
        assert ledger == found[0][1]
        assert same(flow, found[0][2])
    if name != "halves" and after != 3:
        # Three ranks do not divide the sizes evenly.
        alone = begun(name)
        advance(alone)
        assert found[0][1] == alone.ledger.to_json()


def test_ranks_draw_their_own_numbers() -> None:
    def work() -> torch.Tensor:
        training = begun("cmt")
        drawn = draw(
            training.state.flow,
            training.state.target,
            11,
            generator=training.generator,
            progress=quiet,
        )
        return drawn.buffer.coordinates

    first, second = on_ranks(2, work)
    assert (len(first), len(second)) == (6, 5)
    assert not torch.equal(first[:5], second)
    seeds = {of_rank(seed, rank, step=step).initial_seed() for seed in (0, 1) for rank in (1, 2) for step in (0, 3)}
    assert len(seeds) == 8


def test_a_rank_that_fails_ends_the_others() -> None:
    seen = []

    def work() -> None:
        if ranks().leads:
            raise RunError("the disk is full")
        try:
            ranks().mean(1.0)
        except LostProcess as error:
            seen.append(str(error))
            raise

    with pytest.raises(RunError, match="the disk is full"):
        on_ranks(2, work)
    assert seen == ["another of the 2 processes of this run has ended"]


def test_a_rank_without_a_sign_of_life_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that fails closes no connection; one that has left is no loss."""
    monkeypatch.setattr(meeting, "BEAT", 0.01)
    monkeypatch.setattr(meeting, "SILENCE", 0.2)
    exits, said = [], []
    monkeypatch.setattr(meeting.os, "_exit", lambda code: exits.append(code))
    monkeypatch.setattr(meeting.os, "write", lambda _file, text: said.append(text.decode()))
    store = torch.distributed.HashStore()
    for other in (1, 2):
        store.set(f"left {other}", "")
    with meeting._Distributed(store, 0, 3).watched("start again"):
        time.sleep(0.5)
    assert exits == []
    store.delete_key("left 1")
    store.set("left block 1 of 1", "")
    wire = meeting._Distributed(store, 0, 3)
    with wire.watched("start again"):
        time.sleep(0.5)
    assert exits == []
    # Whoever has left the first block is still missed in the second.
    with wire.watched("start again"):
        while len(exits) < 2:
            time.sleep(0.01)
    assert set(exits) == {1}
    assert len(said) == 1
    assert "has ended; start again" in said[0]


@pytest.mark.slow
def test_two_ranks_learn_the_forty_modes() -> None:
    """The constant is that of one rank and of the toy, within errors, and the flow comes nearer."""
    target, config = toy("gmm-40"), {"steps": 4, "gradient_steps": 30, "buffer_size": 4000, "batch_size": 400}
    method = CMT(CMTConfig(**config, learning_rate=5e-3, warmup=5))

    def work() -> list[StepInfo]:
        return trained(method, target, seed=ranks().rank, flow=small_flow(target, pairs=3, width=32))[0]

    (rows, _), alone = on_ranks(2, work), work()
    for last in (rows[-1], alone[-1]):
        assert last.log_z is not None
        assert last.log_z_error is not None
        assert abs(last.log_z - target.log_z) < 5 * last.log_z_error
        assert last.log_z_error < 0.2
    assert rows[-1].ess > 1.5 * rows[0].ess
    assert alone[-1].ess > 1.5 * alone[0].ess
