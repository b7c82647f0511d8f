"""Constrained mass transport that learns the halves of a flow apart, on a target with a known constant."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.flows import MolecularFlow
from boltzport.targets import CountedTarget, Density, Evaluated, Target
from boltzport.training.methods import CMT
from boltzport.training.methods.cmt import apart as apart_module
from halved_target import (
    BOND,
    CHAINS,
    LAYOUT,
    LOG_Z,
    QUICK,
    SMALL,
    TARGET,
    check_learned,
    log_density,
    new_flow,
    run,
    skewed_flow,
    stepped,
)
from molecular_flows import seeded
from trainings import quiet, small_flow, trained


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


def test_without_a_trust_region_the_entropy_alone_bounds_the_steps_to_the_target() -> None:
    rows, _, _ = run(replace(SMALL, trust_region=math.inf, entropy="auto", steps=3, refine=0))
    assert len(rows) == 3
    assert all(row.trust_region_multiplier == 0.0 < row.entropy_multiplier for row in rows)
    assert all(math.isfinite(row.entropy_bound) for row in rows)
    alphas = [row.alpha for row in rows]
    assert alphas == sorted(alphas)
    assert alphas[-1] < 1.0


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


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 0.25), (0.5, 0.5)])
def test_a_renewal_has_a_rate_of_its_own(monkeypatch: pytest.MonkeyPatch, *, rate: float, expected: float) -> None:
    """The peak of the rate is seen where the descent begins, before it falls."""
    seen: list[float] = []

    def descend(_, optimiser, *__, **___) -> None:
        optimiser.step(sum((p * 0.0).sum() for p in state.flow.stiff_parameters), progress=0.0)
        seen.append(optimiser.learning_rate)

    monkeypatch.setattr(apart_module, "descend_stiff", descend)
    config = replace(
        QUICK, trust_region=2.0, steps=1, multiplier=1.0, warmup=0, renew=5, renew_rate=rate, stiff_rate=0.25
    )
    method, target = CMT(replace(config, refine_stiff_rate=0.125)), CountedTarget(TARGET)
    state = method.init(new_flow(), target)
    stepped(method, state, seeded(5), 3)
    assert seen[:2] == [0.25, expected]
    assert seen[2] < 0.125 + 1e-9
