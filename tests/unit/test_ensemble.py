"""Ensembles as files: what is drawn, how it is weighted, and that a stream never holds it all."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError, RunError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import effective_fraction
from boltzport.ensembles import IndependenceMetropolis, Mode, systematic_counts
from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget, Density
from ensembles import write_ensemble

LAYOUT = Layout([interval(0.0, 2.0), circle()])
RATE = 3.0


def log_density(points: Tensor) -> Tensor:
    """Exponential times von Mises: asymmetric, with means that are known."""
    return -RATE * points[:, 0] + 2.0 * torch.cos(points[:, 1] - 0.5)


MEAN = 1 / RATE - 2.0 * math.exp(-2 * RATE) / (1 - math.exp(-2 * RATE))
"""Mean of the exponential cut off at 2."""


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def toy_flow() -> Flow:
    return CouplingFlow(
        LAYOUT, CouplingConfig(pairs=1, bins=4, hidden=(8,)), generator=seeded(1), compiled=False
    ).double()


def toy_target() -> CountedTarget:
    return CountedTarget(Density(log_density, LAYOUT))


def test_weighted_frames_carry_the_weights_of_the_target(tmp_path: Path) -> None:
    target = toy_target()
    written = write_ensemble(tmp_path / "a.npz", toy_flow(), target, 20_000, generator=seeded(2), batch=3000)
    file = np.load(tmp_path / "a.npz")
    assert file["coordinates"].shape == (20_000, 2)
    assert file["coordinates"].dtype == np.float32
    assert target.ledger["evaluation"] == 20_000
    exact = log_density(torch.from_numpy(file["coordinates"]).double()).numpy()
    np.testing.assert_allclose(-file["reduced_energy"], exact, atol=1e-5)
    np.testing.assert_allclose(file["log_weights"], -file["reduced_energy"] - file["log_q"], atol=1e-12)
    assert file["weights"].mean() == pytest.approx(1.0)
    assert np.average(file["coordinates"][:, 0], weights=file["weights"]) == pytest.approx(MEAN, abs=0.01)
    integral = (1 - math.exp(-2 * RATE)) / RATE * 2 * math.pi * float(torch.special.i0(torch.tensor(2.0)))
    assert written.log_z == pytest.approx(math.log(integral), abs=0.03)
    assert (written.frames, written.distinct, written.failed) == (20_000, 20_000, 0)
    assert [path.name for path in written.files] == ["a.npz"]


@pytest.mark.parametrize("batch", [700, 10_000])
def test_resampled_frames_are_the_draws_that_were_weighed(tmp_path: Path, batch: int) -> None:
    flow = toy_flow()
    options = {"generator": seeded(3), "batch": batch}
    write_ensemble(tmp_path / "weighted.npz", flow, toy_target(), 5000, **options)
    target = toy_target()
    written = write_ensemble(
        tmp_path / "equal.npz",
        flow,
        target,
        2000,
        mode=Mode.RESAMPLED,
        draws=5000,
        generator=seeded(3),
        batch=batch,
    )
    assert target.ledger["evaluation"] == 5000
    drawn, equal = np.load(tmp_path / "weighted.npz"), np.load(tmp_path / "equal.npz")
    np.testing.assert_array_equal(equal["coordinates"], drawn["coordinates"][equal["draw"]])
    np.testing.assert_array_equal(equal["reduced_energy"], drawn["reduced_energy"][equal["draw"]])
    np.testing.assert_array_equal(equal["weights"], 1.0)
    weighted_mean = np.average(drawn["coordinates"][:, 0], weights=drawn["weights"])
    assert equal["coordinates"][:, 0].mean() == pytest.approx(weighted_mean, abs=0.02)
    assert drawn["coordinates"][:, 0].mean() > 2 * weighted_mean
    assert written.distinct == len(np.unique(equal["draw"])) < 2000
    assert written.ess == pytest.approx(effective_fraction(torch.from_numpy(drawn["log_weights"])))


def test_systematic_counts_are_off_by_less_than_one() -> None:
    log_weights = torch.randn(500, generator=seeded(4), dtype=torch.float64).numpy() * 2
    log_weights[7] = -np.inf
    expected = 800 * np.exp(log_weights) / np.exp(log_weights).sum()
    totals = np.zeros(500)
    for seed in range(200):
        counts = systematic_counts(log_weights, 800, generator=seeded(seed))
        assert counts.sum() == 800
        assert np.all(np.abs(counts - expected) < 1.0)
        totals += counts
    assert totals[7] == 0
    # Every offset is as likely as any other, so the counts are right on average.
    np.testing.assert_allclose(totals / 200, expected, atol=0.2)


def test_copies_of_one_heavy_draw_come_in_batches(tmp_path: Path) -> None:
    sizes = []
    spike = Density(lambda points: -1e6 * (points[:, 0] - 0.3) ** 2, LAYOUT)
    write_ensemble(
        tmp_path / "spike.npz",
        toy_flow(),
        CountedTarget(spike),
        1000,
        mode=Mode.RESAMPLED,
        generator=seeded(5),
        batch=100,
        progress=lambda _stage, done, total: sizes.append((done, total)),
    )
    assert np.load(tmp_path / "spike.npz")["coordinates"].shape == (1000, 2)
    done = np.array([0] + [step for step, _ in sizes[10:]])
    assert np.diff(done).max() <= 100


def test_metropolis_leaves_the_target_unchanged_and_reaches_it() -> None:
    kernel = IndependenceMetropolis(toy_flow(), toy_target(), steps=60)
    start = torch.tensor([[1.9, -2.0]], dtype=torch.float64).expand(4000, 2).contiguous()
    moved = kernel(start, generator=seeded(6))
    sorted_values = moved[:, 0].sort().values
    exact = (1 - torch.exp(-RATE * sorted_values)) / (1 - math.exp(-2 * RATE))
    distance = (exact - torch.linspace(0, 1, 4000, dtype=torch.float64)).abs().max()
    assert float(distance) < 1.95 / math.sqrt(4000)  # Kolmogorov's at the level 0.001
    one = IndependenceMetropolis(toy_flow(), toy_target(), steps=1)
    again = one(moved, generator=seeded(7))
    assert 0.1 < float((again != moved).any(1).double().mean()) < 1.0
    assert float(again[:, 0].mean()) == pytest.approx(MEAN, abs=0.02)


def test_refined_frames_store_the_energy_of_where_they_ended(tmp_path: Path) -> None:
    def shift(coordinates: Tensor, *, generator: torch.Generator) -> Tensor:
        assert generator is not None
        return coordinates * torch.tensor([0.5, 1.0], dtype=coordinates.dtype)

    flow, path = toy_flow(), tmp_path / "moved.npz"
    for refine in (None, shift):
        write_ensemble(path, flow, toy_target(), 300, mode=Mode.REFINED, refine=refine, generator=seeded(8))
        file = np.load(path)
        exact = log_density(torch.from_numpy(file["coordinates"]).double()).numpy()
        np.testing.assert_allclose(-file["reduced_energy"], exact, atol=1e-5)
        assert np.isnan(file["log_q"]).all()
    assert file["coordinates"][:, 0].max() < 1.0


def test_failed_evaluations_have_weight_zero(tmp_path: Path) -> None:
    half = Density(lambda points: torch.where(points[:, 0] > 1.0, torch.nan, 0.0).double(), LAYOUT)
    path = tmp_path / "half.npz"
    written = write_ensemble(path, toy_flow(), CountedTarget(half), 1000, generator=seeded(9))
    file = np.load(path)
    assert written.failed == int((file["coordinates"][:, 0] > 1.0).sum()) > 100
    np.testing.assert_array_equal(file["weights"] == 0.0, file["coordinates"][:, 0] > 1.0)
    never = CountedTarget(Density(lambda points: torch.full((len(points),), torch.nan), LAYOUT))
    for mode in (Mode.WEIGHTED, Mode.RESAMPLED, Mode.REFINED):
        with pytest.raises(RunError, match="none of 10 samples has a finite weight"):
            write_ensemble(tmp_path / "none.npz", toy_flow(), never, 10, mode=mode, generator=seeded(9))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["half.npz"]


@pytest.mark.parametrize(
    ("name", "n", "message"),
    [
        ("a.xyz", 10, "expected a file that ends in .xtc, .dcd, .pdb, .npz, got 'a.xyz'"),
        ("a.xtc", 10, "is for molecules, and this target is not one"),
        ("a.npz", 0, "expected a positive number of frames"),
        ("no/a.npz", 1, "no such directory"),
    ],
)
def test_bad_input_is_named(tmp_path: Path, name: str, n: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_ensemble(tmp_path / name, toy_flow(), toy_target(), n, generator=seeded(0))


def test_a_flow_that_changed_between_the_passes_is_found_out(tmp_path: Path) -> None:
    flow = toy_flow()

    def meddle(_stage: str, _done: int, _total: int) -> None:
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter.add_(0.1)

    with pytest.raises(RunError, match="did not repeat its samples"):
        write_ensemble(
            tmp_path / "a.npz", flow, toy_target(), 100, mode=Mode.RESAMPLED, generator=seeded(0), progress=meddle
        )
