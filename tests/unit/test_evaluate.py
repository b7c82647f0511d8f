"""Evaluations of models that are known exactly: one equal to its target, one that has collapsed, one that fails."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.analysis.evaluation import Cost, LogZ, evaluate
from boltzport.analysis.metrics import Results, wasserstein_line
from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget, Density

SHARE = 0.7
WIDE = Layout([interval(-6.0, 7.0, centre=-2.0, width=0.5), interval(-5.0, 6.0, centre=0.3, width=0.8)])
"""Its base density is the first mode of the mixture."""


@dataclass(frozen=True, kw_only=True)
class Frames:
    coordinates: np.ndarray
    reduced_energy: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    provenance: Mapping[str, object] = field(default_factory=lambda: {"diagnostics": {"converged": False}})


def fresh(layout: Layout) -> Flow:
    """A flow that is its base density."""
    generator = torch.Generator().manual_seed(0)
    return CouplingFlow(layout, CouplingConfig(pairs=1, hidden=(8,)), generator=generator, compiled=False)


def normal(values: Tensor, centre: float, width: float) -> Tensor:
    return -0.5 * ((values - centre) / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))


def mixture(points: Tensor) -> Tensor:
    """Log of 5 (0.7 N(-2, 0.5) + 0.3 N(3, 0.5)) N(0.3, 0.8)."""
    points = points.double()
    modes = torch.logaddexp(
        math.log(SHARE) + normal(points[:, 0], -2.0, 0.5), math.log(1 - SHARE) + normal(points[:, 0], 3.0, 0.5)
    )
    return math.log(5.0) + modes + normal(points[:, 1], 0.3, 0.8)


def mixture_frames(count: int, *, seed: int, share: float = SHARE) -> Frames:
    generator = np.random.default_rng(seed)
    first = np.where(generator.random(count) < share, -2.0, 3.0) + 0.5 * generator.normal(size=count)
    points = np.stack([first, 0.3 + 0.8 * generator.normal(size=count)], axis=1).astype(np.float32)
    return Frames(
        coordinates=points,
        reduced_energy=-mixture(torch.from_numpy(points)).numpy(),
        weights=np.ones(count),
        chain=np.arange(count) // (count // 16),
    )


def test_a_model_that_equals_its_target() -> None:
    flow = fresh(WIDE)
    target = CountedTarget(
        Density(lambda x: 2.5 + normal(x[:, 0], -2.0, 0.5) + normal(x[:, 1], 0.3, 0.8), WIDE, name="equal")
    )
    seen: list[tuple[str, int, int]] = []
    found = evaluate(
        flow,
        target,
        n=20_000,
        generator=torch.Generator().manual_seed(1),
        batch=3000,
        cost=Cost(target_evaluations=7, gradient_steps=3, wall_seconds=1.5),
        progress=lambda *report: seen.append(report),
    )
    result = found.to_json()
    assert json.loads(json.dumps(result)) == result
    # The ends of the range cut off less than a part in 1e8.
    assert result["ess"] == pytest.approx(1.0, abs=1e-6)
    assert result["log_z"] == pytest.approx(2.5, abs=1e-5)
    assert result["elbo"] == pytest.approx(2.5, abs=1e-5)
    # Two quadratic energies: half a kT each, beside the constants.
    constants = -2.5 + math.log(0.5 * 0.8 * 2 * math.pi)
    assert result["mean_reduced_energy"] == pytest.approx(1.0 + constants, abs=0.03)
    assert (result["target_evaluations"], result["gradient_steps"], result["wall_seconds"]) == (7, 3, 1.5)
    assert target.ledger["evaluation"] == 20_000
    assert seen[-1] == ("samples", 20_000, 20_000)
    assert result["basins"] == []
    assert "nll" not in result
    at_half_more = found.details["temperatures"][-1]
    assert at_half_more["heat_capacity"] == pytest.approx(1.0, rel=0.1)
    assert found[f"temperatures.{at_half_more['temperature']:g}.heat_capacity"].value == at_half_more["heat_capacity"]
    assert found.details["missing_mass"]["at_least"] == 0.0
    for name in ("model", "reweighted"):
        plane = found.arrays[f"density_2d_{name}"]
        assert plane.shape == (100, 100)
        assert plane.sum() == pytest.approx(1.0)
        energy = found.arrays[f"energy_{name}"] * np.diff(found.arrays["energy_edges"])
        assert energy.sum() == pytest.approx(1.0, abs=0.01)
        marginal = found.arrays[f"marginal_0_{name}"] * np.diff(found.arrays["marginal_0_edges"])
        assert marginal.sum() == pytest.approx(1.0, abs=1e-3)
    # The mode of the first coordinate lies at -2, in the first axis of the plane.
    rows = found.arrays["density_2d_model"].sum(1)
    assert found.arrays["density_2d_edges_0"][rows.argmax()] == pytest.approx(-2.0, abs=0.3)


def test_batches_do_not_matter() -> None:
    flow, target = fresh(WIDE), CountedTarget(Density(mixture, WIDE))
    flow.chunk = 500
    first, second = (
        evaluate(flow, target, n=30_000, generator=torch.Generator().manual_seed(2), batch=batch, transport_samples=200)
        for batch in (1000, 30_000)
    )
    assert first["ess"].value == second["ess"].value
    np.testing.assert_allclose(
        first.arrays["density_2d_reweighted"], second.arrays["density_2d_reweighted"], rtol=1e-9, atol=1e-15
    )
    assert first["log_z_error"].value == second["log_z_error"].value


def test_a_collapsed_model_is_caught_by_a_reference() -> None:
    flow, target = fresh(WIDE), CountedTarget(Density(mixture, WIDE, name="mixture"))
    found = evaluate(
        flow,
        target,
        n=20_000,
        generator=torch.Generator().manual_seed(3),
        reference=mixture_frames(8000, seed=4),
        transport_samples=400,
    )
    # By its own weights nothing is wrong.
    assert found["ess"].value == pytest.approx(1.0, abs=1e-4)
    assert found["log_z"].value == pytest.approx(math.log(5 * SHARE), abs=1e-3)
    assert 0.26 < found.details["missing_mass"]["at_least"] <= 0.31
    result = found.to_json()
    assert "at least 2" in found.details["missing_mass"]["message"]
    assert result["nll"] > 10
    entropy = 0.5 * math.log(2 * math.pi * math.e * 0.8**2)
    assert found["eubo"].value == pytest.approx(result["nll"] + math.log(5) - entropy - 1.3365, abs=0.05)
    assert result["density_2d"]["tv"] == pytest.approx(0.3, abs=0.15)
    # The second coordinate stays, so the distance is that between quantiles of the first.
    many = (
        mixture_frames(100_000, seed=10).coordinates[:, 0],
        mixture_frames(100_000, seed=11, share=1.0).coordinates[:, 0],
    )
    assert result["wasserstein"]["plane"] == pytest.approx(wasserstein_line(*many), rel=0.1)
    assert result["noise_floor"]["density_2d.tv"] > 0
    assert result["noise_floor"]["wasserstein.plane"] < 1.0
    assert result["noise_floor_samples"] == 4000
    assert "torsions" in result["tica"]["reason"]
    assert result["coordinates"] == ["coordinate 0", "coordinate 1"]
    assert result["reference"]["diagnostics"] == {"converged": False}
    lower, upper = result["intervals"]["wasserstein.plane"]
    assert lower < result["wasserstein"]["plane"] < upper
    # Another run that found both modes says so without a reference.
    blind = evaluate(
        flow,
        target,
        n=2000,
        generator=torch.Generator().manual_seed(3),
        transport_samples=10,
        path_log_z=LogZ("the path", math.log(5 * SHARE) + 0.01, None),
        other_log_z=[LogZ("seed 2", math.log(5.0), 0.01)],
    )
    assert 0.25 < blind.details["missing_mass"]["at_least"] < 0.3
    assert [entry["name"] for entry in blind.details["missing_mass"]["estimates"]] == [
        "importance sampling",
        "the path",
        "seed 2",
    ]


def test_a_good_model_is_not_accused() -> None:
    """The base density is uniform here, so weights are uneven and right."""
    layout = Layout([interval(-6.0, 7.0), interval(-5.0, 6.0)])
    found = evaluate(
        fresh(layout),
        CountedTarget(Density(mixture, layout)),
        n=50_000,
        generator=torch.Generator().manual_seed(5),
        reference=mixture_frames(8000, seed=6),
        floor=mixture_frames(3000, seed=7),
        transport_samples=400,
    )
    assert found.details["missing_mass"]["at_least"] == 0.0
    assert found["log_z"].value == pytest.approx(math.log(5.0), abs=4 * found["log_z_error"].value)
    assert found["noise_floor_samples"].value == 3000
    assert found["density_2d.tv_reweighted"].value < 0.5 * found["density_2d.tv"].value
    assert found["wasserstein.plane_reweighted"].value < 0.3 * found["wasserstein.plane"].value
    assert found["nll"].value == pytest.approx(math.log(13 * 11), abs=1e-4)
    assert Results.from_json(found.to_json()).to_json() == found.to_json()
    text = str(found)
    for word in (
        "no missing mass",
        "ess",
        "density 2d.kl reweighted",
        "noise floor",
        "wasserstein.plane",
        "not converged",
    ):
        assert word in text


def test_failures_are_counted_and_have_no_weight() -> None:
    def half(points: Tensor) -> Tensor:
        return torch.where(points[:, 1] > 0.3, mixture(points), math.nan)

    found = evaluate(
        fresh(WIDE),
        CountedTarget(Density(half, WIDE)),
        n=20_000,
        generator=torch.Generator().manual_seed(8),
        transport_samples=50,
    )
    assert found["failed"].value == pytest.approx(10_000, abs=300)
    assert found["ess"].value == pytest.approx(0.5, abs=0.02)
    assert found["log_z"].value == pytest.approx(math.log(5 * SHARE / 2), abs=0.03)
    assert found["mean_reduced_energy"].value is not None
    assert found.warnings == [f"{found['failed'].value} of 20000 evaluations failed; these samples have weight zero"]
    nothing = evaluate(
        fresh(WIDE),
        CountedTarget(Density(lambda x: torch.full_like(x[:, 0], math.nan), WIDE)),
        n=200,
        generator=torch.Generator().manual_seed(8),
        reference=None,
    )
    assert nothing.to_json()["log_z"] is None
    assert nothing.to_json()["ess"] == 0.0


def test_what_does_not_belong_together_is_named() -> None:
    target, generator = CountedTarget(Density(mixture, WIDE)), torch.Generator().manual_seed(0)
    with pytest.raises(InputError, match="another layout"):
        evaluate(fresh(Layout([interval(0.0, 1.0), interval(0.0, 1.0)])), target, n=200, generator=generator)
    with pytest.raises(InputError, match="at least 100 samples, got 99"):
        evaluate(fresh(WIDE), target, n=99, generator=generator)
    frames = mixture_frames(160, seed=9)
    other = Frames(**{**vars(frames), "reduced_energy": frames.reduced_energy + 2.0})
    with pytest.raises(InputError, match="differ from the target's by 2 kT"):
        evaluate(fresh(WIDE), target, n=200, generator=generator, reference=other)
    flat = Frames(**{**vars(frames), "coordinates": frames.coordinates[:, :1]})
    with pytest.raises(InputError, match=r"expected coordinates of shape \(frames, 2\)"):
        evaluate(fresh(WIDE), target, n=200, generator=generator, reference=flat)
