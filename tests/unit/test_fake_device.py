"""Trainings, samples, evaluations and references on a device that is not there: nothing mixes it with the processor."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.analysis.evaluation import annealed as annealed_module
from boltzport.analysis.evaluation import evaluate
from boltzport.analysis.evaluation import halves as halves_module
from boltzport.core.layout import Layout, interval
from boltzport.ensembles import Ensemble
from boltzport.ensembles import chain as chain_module
from boltzport.ensembles.anneal import annealed
from boltzport.ensembles.reference import HmcSettings, sample_hmc
from boltzport.ensembles.survey import survey
from boltzport.experiments.drawing import Drawing, open_drawing, seeded
from boltzport.flows import Flow, MixedFlow
from boltzport.mcmc import independence
from boltzport.targets import CountedTarget, Density, Ledger, Target
from boltzport.targets.boltzmann import BoltzmannTarget, informed_layout
from boltzport.training import Training
from fake_device import elsewhere
from molecules import molecule
from ranks import SETTINGS, advance, begun, flow_of, method_of, target_of
from trainings import quiet, small_flow


@pytest.fixture
def place() -> Iterator[torch.device]:
    with elsewhere() as device:
        yield device


def near() -> tuple[Flow, Target]:
    """A target that an untrained flow covers."""
    target = Density(lambda x: -0.5 * (x**2).sum(1), Layout([interval(-4.0, 4.0, centre=0.0, width=0.5)] * 2))
    return small_flow(target, pairs=1, width=4), target


def halved() -> tuple[Flow, Target]:
    return flow_of("halves"), target_of("halves")


def test_it_fails_where_a_gpu_would(place: torch.device) -> None:
    there = torch.arange(3.0, device=place)
    assert (2 * there).device == place
    assert there.cpu().numpy().tolist() == (there + torch.tensor(0.0)).tolist() == [0.0, 1.0, 2.0]
    for wrong in (
        lambda: there + torch.ones(3),
        lambda: there[torch.tensor([0])],
        lambda: torch.rand(3, device=place, generator=torch.Generator()),
        lambda: torch.rand(3, generator=torch.Generator(place)),
    ):
        with pytest.raises(RuntimeError, match=r"tensors of the processor|generator of another device"):
            wrong()
    with pytest.raises((RuntimeError, TypeError)):
        there.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_does_there_what_it_does_here(name: str) -> None:
    rows = advance(begun(name))
    with elsewhere() as device:
        generator, target = torch.Generator().manual_seed(5), CountedTarget(target_of(name))
        training = Training(method_of(name), flow_of(name), target, generator=generator, ledger=Ledger(), device=device)
        moved = advance(training)
        saved = training.checkpoint()
        assert training.state.flow.device == device
        resumed = Training(
            method_of(name),
            flow_of(name, seed=3),
            CountedTarget(target_of(name)),
            generator=torch.Generator(),
            ledger=Ledger(saved["ledger"]),
            saved=saved,
            device=device,
        )
        assert resumed.state.flow.device == device
    if name != "halves":
        # A renewed half has random numbers of its own, which come from the processor.
        assert repr(moved) == repr(rows)


@pytest.mark.parametrize("pair", [near, halved])
@pytest.mark.parametrize("mode", ["weighted", "resampled", "refined", "chain"])
def test_frames_come_from_there(place: torch.device, pair: type, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "WARM_UP", 2)
    flow, target = pair()
    how = Drawing(seed=0, mode=mode, draws=None, anneal=0, defensive=0.1 if mode == "weighted" else 0.0)
    stream = open_drawing(flow.to(place), CountedTarget(target), 20, how, results=None, progress=quiet)
    found = Ensemble.from_stream(stream, target, 20)
    assert found.coordinates.shape == (20, len(target.layout))
    assert found.coordinates.dtype == np.float32


def test_annealed_frames_come_from_there(place: torch.device) -> None:
    flow, target = near()
    flow, counted = flow.to(place), CountedTarget(target)
    plan = survey(flow, counted, generator=seeded(0, place), population=30).plan(2)
    (frames,) = annealed(flow, counted, 30, plan, generator=seeded(1, place))
    assert np.isfinite(frames.numbers.log_weights).all()


def test_a_mixture_lives_where_its_members_do(place: torch.device) -> None:
    flow, target = near()
    mixture = MixedFlow([flow.to(place), near()[0].to(place)], [0.3, 0.7])
    assert mixture.device == place
    how = Drawing(seed=0, mode="weighted", draws=None, anneal=0, defensive=0.1)
    stream = open_drawing(mixture, CountedTarget(target), 20, how, results=None, progress=quiet)
    assert len(Ensemble.from_stream(stream, target, 20)) == 20


@pytest.mark.parametrize("name", ["toy", "halves"])
def test_an_evaluation_goes_there_and_back(place: torch.device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealed_module, "CHAINS", 10)
    monkeypatch.setattr(annealed_module, "TIMES", 2)
    monkeypatch.setattr(halves_module, "TORSIONS", 20)
    from boltzport.experiments.exact import exact_samples

    target = target_of("cmt") if name == "toy" else target_of("halves")
    flow = flow_of("cmt" if name == "toy" else "halves").to(place)
    found = evaluate(
        flow,
        CountedTarget(target),
        n=200,
        generator=seeded(0, place),
        reference=exact_samples(target, 200, seed=0) if name == "toy" else None,
        transport_samples=20,
    )
    assert found.value("samples") == 200


@pytest.mark.slow
def test_a_reference_is_sampled_there_as_here() -> None:
    """A molecule with its tensors, ladders of chains, half turns and proposals."""
    from boltzport.energies import ForceField, extract

    system = molecule("alanine-dipeptide")
    field = ForceField(extract(system.system), compiled=False)
    target = BoltzmannTarget(system, field, informed_layout(system, field))
    settings = HmcSettings(samples=8, ladders=2, iterations=8, warm_up=4, rungs=2, hottest=1.3, leapfrogs=1)

    def proposal() -> independence.Proposal:
        def draw(n: int, generator: torch.Generator) -> independence.Proposed:
            start = torch.from_numpy(system.positions).to(generator.device)[None]
            points = system.coordinates.to_internal(start).coordinates.expand(n, -1)
            return independence.Proposed(points, points.new_zeros(n))

        return independence.Proposal(draw, lambda points: points.new_zeros(len(points)))

    here = sample_hmc(target, field, torch.Generator().manual_seed(1), settings=settings, proposal=proposal())
    with elsewhere() as device:
        generator = torch.Generator(device).manual_seed(1)
        there = sample_hmc(target, field, generator, settings=settings, proposal=proposal())
    np.testing.assert_array_equal(here.positions, there.positions)
    assert here.details == there.details


def test_ranks_draw_there_together(place: torch.device) -> None:
    from boltzport.flows import draw
    from boltzport.targets import Purpose
    from ranks import on_ranks

    def work() -> Tensor:
        flow, target = near()
        counted, generator = CountedTarget(target), torch.Generator(place).manual_seed(0)
        options = {"batch": 6, "purpose": Purpose.EVALUATION, "split": True}
        with elsewhere():
            parts = list(draw(flow.to(place), counted, 10, generator=generator, **options))
        return torch.cat([part.coordinates.cpu() for part in parts])

    first, second = on_ranks(2, work)
    assert torch.equal(first, second)
    assert len(first) == 10
