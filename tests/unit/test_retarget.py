"""Retargeting on densities whose constants are known: by reweighting, by constrained steps, and resumed."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.experiments import Model, OpenTarget, launch, load, request, run_training
from boltzport.experiments.build import Given
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Density
from boltzport.training import Status
from trainings import small_flow

LAYOUT = Layout([interval(-8.0, 8.0, centre=0.3, width=1.1), interval(-6.0, 6.0, centre=-0.5, width=0.7)])
CENTRES, WIDTHS, CONSTANT = (0.3, -0.5), (1.0, 0.6), 1.9
FEW = ("steps=6", "buffer_size=1500", "batch_size=150", "gradient_steps=15", "refine=0", "trust_region=0.2")


def harmonic(x: Tensor) -> Tensor:
    parts = [((x[:, i].double() - c) / w) ** 2 for i, (c, w) in enumerate(zip(CENTRES, WIDTHS, strict=True))]
    return CONSTANT - 0.5 * sum(parts)


def log_z(temperature: float) -> float:
    return CONSTANT / temperature + math.log(2 * math.pi * temperature * WIDTHS[0] * WIDTHS[1])


def at(temperature: float) -> Density:
    return Density(lambda x: harmonic(x) / temperature, LAYOUT, name=f"at {temperature:g}")


def model() -> Model:
    density = at(1.0)
    config = request(density.name, kind="density")
    flow: Flow = small_flow(density)
    status = Status(state="done")
    return Model(flow=flow, target=OpenTarget(counted=CountedTarget(density)), config=config, status=status)


@pytest.mark.parametrize("temperature", [1.4, 0.7])
def test_reweighting_finds_the_difference_of_the_constants(temperature: float) -> None:
    found = model().retarget(density=at(temperature), n=4000, seed=1)
    assert found.origin is not None
    assert found.results is not None
    assert (found.origin.by, found.origin.before, found.origin.after) == (
        "reweighting",
        "at 1",
        f"at {temperature:g}",
    )
    exact = log_z(temperature) - log_z(1.0)
    assert abs(exact) > 0.1
    change, reduced, energy = (
        found.results[name] for name in ("log_z_difference", "reduced_free_energy_difference", "free_energy_difference")
    )
    assert change.error < 0.02
    assert change.value == pytest.approx(exact, abs=4 * change.error)
    assert reduced.value == -change.value
    # kT is 1 for a density, whose temperature is part of it.
    assert energy.value == pytest.approx(-change.value)
    assert found.origin.log_z_difference == pytest.approx(exact, abs=4 * found.origin.log_z_difference_error)
    assert found.results.details["origin"]["by"] == "reweighting"


def test_constrained_steps_find_it_where_the_weights_do_not_suffice() -> None:
    found = model().retarget(density=at(0.35), n=3000, overlap=1.0, settings=FEW, seed=2)
    assert found.origin is not None
    assert found.results is not None
    assert found.origin.by == "constrained steps"
    exact = log_z(0.35) - log_z(1.0)
    change = found.results["log_z_difference"]
    assert change.value == pytest.approx(exact, abs=4 * change.error)
    path = found.rows[-1]["log_z_path"]
    assert path is not None
    assert path == pytest.approx(log_z(0.35), abs=0.1)
    ledger = found.ledger
    assert ledger["monitoring"] == found.origin.samples
    assert ledger["training"] == len(found.rows) * 1500
    assert ledger["evaluation"] == 3000


def test_a_budget_bounds_all_evaluations() -> None:
    for overlap in (0.0, 1.0):
        few = ("gradient_steps=4", "refine=0")
        found = model().retarget(density=at(0.8), budget=20_000.0, overlap=overlap, settings=few, seed=2)
        assert 5000 < found.ledger.total <= 20_000


def test_the_run_is_resumed_from_the_flow_it_started_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    density, whole, broken = at(0.35), tmp_path / "whole", tmp_path / "broken"
    common = {"density": density, "n": 500, "overlap": 1.0, "settings": FEW, "seed": 3}
    wanted = model().retarget(out=whole, **common)
    keep = launch.keep_step

    def once(*arguments: object) -> None:
        keep(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(launch, "keep_step", once)
        assert model().retarget(out=broken, **common).status.state == "interrupted"
    resumed = run_training(
        launch.RunConfig.load(broken / "config.toml"), broken, resume=True, given=Given(density=density)
    )
    assert all(map(torch.equal, resumed.flow.state_dict().values(), wanted.flow.state_dict().values()))
    assert [row["log_z_path"] for row in resumed.rows] == [row["log_z_path"] for row in wanted.rows]
    assert resumed.origin == wanted.origin
    again = load(whole, density=density)
    assert again.origin == wanted.origin
    assert "free_energy_difference" in again.evaluate(n=500)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "expected another temperature"),
        ({"temperature": 2.0}, "is not a molecule and has no temperature"),
        ({"density": Density(harmonic, [(-1.0, 1.0), (-1.0, 1.0)])}, "expected the coordinates of at 1"),
        ({"density": at(2.0), "budget": 10.0}, "expected at least 4000 evaluations"),
        ({"density": at(2.0), "overlap": 30.0}, "expected a fraction"),
        ({"density": at(2.0), "overlap": 1.0, "settings": ["colour=blue"]}, "colour"),
    ],
)
def test_what_cannot_be_retargeted(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model().retarget(**changes)
