"""Torsions of a broader flow, from which the refinement learns rare conformations."""

import math
from dataclasses import replace

import pytest
import torch

from boltzport.targets import CountedTarget
from boltzport.training import draw
from boltzport.training.fit import FitData
from boltzport.training.methods import CMT
from boltzport.training.methods.cmt.dual import Bounds, solve
from boltzport.training.methods.cmt.learners import Lesson
from boltzport.training.methods.cmt.path import PathPoint, log_weights
from boltzport.training.methods.cmt.wide import draw_wide, mixed
from halved_target import MODES, QUICK, TARGET, new_flow, skewed_flow, stepped
from molecular_flows import seeded
from trainings import quiet


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
    lesson = Lesson(buffer, log_ratio, solution, PathPoint(alpha=1.0, beta=1.0), (0.0, 1.0), present.initial_log_prob)
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
