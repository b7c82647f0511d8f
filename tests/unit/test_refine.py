"""The guard of refinements: what is rolled back, with which rate it goes on, and by what it is judged."""

import copy
import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.weights import LogMean, Reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, toy
from boltzport.training import StepInfo
from boltzport.training import refine as refine_module
from boltzport.training.methods import CMT, CMTConfig
from boltzport.training.methods.cmt import refining as cmt_refining
from boltzport.training.optimiser import Optimiser
from boltzport.training.path_gradient import SampledLoss
from boltzport.training.refine import RefineInfo
from trainings import quiet, small_flow


class Refinements:
    """Stands for refinements that end as told: an effective size each, or none where a gradient is not finite."""

    def __init__(self, *ends: float | None) -> None:
        self.ends = list(ends)
        self.begun: list[tuple[list[Tensor], int, float]] = []

    def __call__(self, flow: Flow, optimiser: Optimiser, *_: object, **__: object) -> RefineInfo:
        """Note the flow, the count and the scale of the rate that it begins with, and move the flow."""
        weights = [parameter.detach().clone() for parameter in flow.parameters()]
        self.begun.append((weights, optimiser.save()["count"], optimiser.scale))
        optimiser.step(flow.log_prob(torch.zeros(4, 2)).mean(), progress=0.0)
        end = self.ends.pop(0)
        if end is None:
            raise RunError("not finite")
        return RefineInfo(1.0, Reweighting(end, end / 2, LogMean(0.0, 0.1), 0.0, 0))


def refining(monkeypatch: pytest.MonkeyPatch, best: float, *ends: float | None) -> tuple[list[StepInfo], Refinements]:
    """The rows of refining steps with refinements that end as told, after an annealing whose best was this."""
    refinements = Refinements(*ends)
    monkeypatch.setattr(cmt_refining, "refine", refinements)
    method, target = CMT(CMTConfig(steps=1, refine=9)), CountedTarget(toy("gmm-2d"))
    state, generator, rows = method.init(small_flow(target.target), target), torch.Generator(), []
    state.step, state.best_ess = 1, best
    state.arrive()
    while refinements.ends:
        rows.append(method.step(state, generator=generator, progress=quiet))
    return rows, refinements


@pytest.mark.parametrize("end", [0.39, None])
def test_a_refining_step_far_below_the_best_begins_again_with_half_the_rate(
    end: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, found = refining(monkeypatch, 0.8, 0.41, end, 0.5, 0.9)
    assert [row.retries for row in rows] == [0, 1, 0]
    assert [(row.ess, row.ess_unclipped) for row in rows] == [(0.41, 0.205), (0.5, 0.25), (0.9, 0.45)]
    flows, counts, scales = zip(*found.begun, strict=True)
    assert counts == (0, 1, 1, 2), "the optimiser is rolled back"
    assert scales == (1.0, 1.0, 0.5, 0.5)
    moved = [not all(map(torch.equal, former, later)) for former, later in pairwise(flows)]
    assert moved == [True, False, True], "the flow is rolled back"


def test_a_best_that_no_rate_reaches_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lucky buffer: later steps are not rolled back for it, and their rate does not vanish."""
    rows, found = refining(monkeypatch, 0.8, 0.3, 0.3, 0.3, 0.3, 0.31, 0.2)
    assert [row.retries for row in rows] == [3, 0, 0]
    assert [scale for *_, scale in found.begun] == [1.0, 0.5, 0.25, 0.125, 0.125, 0.125]


def test_a_refining_step_that_fails_for_good_leaves_the_state_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmt_refining, "refine", Refinements(0.9, None, None, None, None))
    method, target = CMT(CMTConfig(steps=1, refine=9)), CountedTarget(toy("gmm-2d"))
    state, generator = method.init(small_flow(target.target), target), torch.Generator()
    state.step = 1
    state.arrive()
    method.step(state, generator=generator, progress=quiet)
    before = copy.deepcopy(state.save())
    with pytest.raises(RunError, match="step 3: not finite"):
        method.step(state, generator=generator, progress=quiet)
    after = state.save()
    assert (after["step"], after["learner"]["optimiser"]["count"], after["learner"]["optimiser"]["scale"]) == (
        2,
        1,
        1.0,
    )
    assert all(torch.equal(value, after["flow"][name]) for name, value in before["flow"].items())


def test_a_refinement_is_judged_without_its_largest_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's clipping, of one part in 10 000 of all points of the step together; failed ones have no weight."""
    weights = torch.zeros(20_000, dtype=torch.float64)
    weights[[3, 15_000]] = torch.tensor([20.0, 1.0], dtype=torch.float64)
    weights[5_000:10_000] = torch.nan
    parts = iter(weights.split(10_000))

    def path_loss(flow: Flow, *_: object, **__: object) -> SampledLoss:
        log_p = next(parts)
        return SampledLoss(flow.log_prob(torch.zeros(4, 2)).mean(), torch.zeros_like(log_p), log_p)

    monkeypatch.setattr(refine_module, "path_loss", path_loss)
    target = CountedTarget(toy("gmm-2d"))
    flow, config = small_flow(target.target), CMTConfig(gradient_steps=2, refine=1)
    info = refine_module.refine(
        flow,
        Optimiser(flow.parameters(), config.refining),
        target,
        config.refinement,
        None,
        generator=torch.Generator(),
        progress=quiet,
        span=(0.0, 1.0),
    ).flow
    total, squares = 14_998 + 2 * math.e, 14_998 + 2 * math.e**2
    assert info.ess == pytest.approx(total**2 / squares / 20_000)
    assert info.failed == 5_000
    assert info.log_z.value == pytest.approx(math.log((14_998 + math.e + math.exp(20.0)) / 20_000)), (
        "log Z is not clipped"
    )
