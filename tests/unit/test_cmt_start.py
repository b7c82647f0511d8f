"""Constrained mass transport from a trained flow: its own density is the beginning of the path."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Layout, interval
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Density, Ledger, Target
from boltzport.training import Training
from boltzport.training.methods import CMT, CMTConfig
from boltzport.training.methods.cmt import apart as apart_module
from boltzport.training.methods.cmt.state import CMTState
from halved_target import LOG_Z, QUICK, SMALL, TARGET, skewed_flow
from molecular_flows import seeded
from trainings import quiet, small_flow

WELLS = Layout([interval(-3.0, 3.0), interval(-4.0, 4.0)])
WHOLE = CMTConfig(
    trust_region=0.4, steps=8, gradient_steps=60, buffer_size=8000, batch_size=400, learning_rate=4e-3, warmup=5
)


def double_well(x: Tensor) -> Tensor:
    x = x.double()
    return 2.3 - 3.0 * (x[:, 0] ** 2 - 1.0) ** 2 + 0.7 * x[:, 0] - 0.5 * (x[:, 1] - 0.4 * x[:, 0]) ** 2


def log_z_of_wells() -> float:
    x, y = (torch.linspace(-end, end, 1201, dtype=torch.float64) for end in (3.0, 4.0))
    points = torch.cartesian_prod(x, y)
    cell = float((x[1] - x[0]) * (y[1] - y[0]))
    return float(torch.logsumexp(double_well(points), 0)) + float(torch.tensor(cell).log())


def training(config: CMTConfig, flow: Flow, target: Target, *, start: Flow | None) -> Training:
    return Training(
        CMT(config), flow, CountedTarget(target), generator=seeded(3), ledger=Ledger(), start=copy.deepcopy(start)
    )


def run(config: CMTConfig, flow: Flow, target: Target, *, start: Flow | None) -> float | None:
    begun = training(config, flow, target, start=start)
    rows = list(begun.steps(quiet))
    assert rows[-1].beta == 1.0
    return rows[-1].log_z_path


def test_log_z_along_the_path_is_that_of_the_target() -> None:
    target = Density(double_well, WELLS)
    flow = small_flow(target, seed=5, moved=0.25)
    assert run(WHOLE, copy.deepcopy(flow), target, start=flow) == pytest.approx(log_z_of_wells(), abs=0.05)


def test_from_the_target_itself_the_path_has_no_noise() -> None:
    """From the density of the untrained flow, by mistake, it would have that of the weights between the two."""
    flow = small_flow(Density(double_well, WELLS), seed=5, moved=0.25)
    target = Density(lambda x: 1.7 + flow.log_prob(x), WELLS)
    found = run(replace(WHOLE, steps=1), copy.deepcopy(flow), target, start=flow)
    assert found == pytest.approx(1.7, abs=1e-4)


def test_the_same_for_a_flow_of_two_halves() -> None:
    config = replace(SMALL, refine=1, trust_region=0.3, buffer_size=4000)
    flow = skewed_flow(2, 0.15)
    assert run(config, copy.deepcopy(flow), TARGET, start=flow) == pytest.approx(LOG_Z, abs=0.15)


def test_the_stiff_half_descends_towards_the_path_from_the_trained_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Callable[[Tensor], Tensor]] = []
    monkeypatch.setattr(apart_module, "descend_stiff", lambda _flow, _optimiser, log, *_, **__: seen.append(log))
    start = skewed_flow(7, 0.1)
    begun = training(replace(QUICK, trust_region=0.1), copy.deepcopy(start), TARGET, start=start)
    next(begun.steps(quiet))
    state = begun.state
    assert isinstance(state, CMTState)
    assert 0.0 < state.point.beta < 0.9
    with torch.no_grad():
        x = start.sample(50, generator=seeded(5))
        log_p, _ = TARGET.evaluate(x)
        wanted = state.point.log_density(start.log_prob(x).double(), log_p)
        wrong = state.point.log_density(start.initial_log_prob(x).double(), log_p)
    torch.testing.assert_close(seen[0](x), wanted)
    assert (wrong - wanted).abs().mean() > 0.02


def test_the_beginning_of_the_path_stays_where_it_was() -> None:
    start = skewed_flow(4, 0.1)
    before = {name: value.clone() for name, value in start.state_dict().items()}
    begun = training(QUICK, copy.deepcopy(start), TARGET, start=start)
    next(begun.steps(quiet))
    assert begun.state.start is not None
    kept = begun.state.start.state_dict()
    assert all(torch.equal(kept[name], value) for name, value in before.items())
    assert any(not torch.equal(begun.state.flow.state_dict()[name], value) for name, value in before.items())
