"""Samples that a run learns from: drawn of a toy, or taken from a reference that is checked to be of the molecule."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.ensembles.reference import Reference
from boltzport.experiments import RunConfig, request, run_training
from boltzport.experiments.display import Display
from boltzport.experiments.samples import require_samples, training_samples, with_samples
from boltzport.flows import CouplingConfig, CouplingFlow, Flow, load_flow
from boltzport.targets import CountedTarget, toy
from boltzport.targets.boltzmann import BoltzmannTarget, paper_layout
from molecules import molecule

FRAMES = 60


def springs(positions: Tensor) -> Tensor:
    """Energies that know every atom: springs to the reference structure of the distances between all."""
    reference = torch.from_numpy(molecule("alanine-dipeptide").positions).to(positions)
    return 500.0 * ((torch.pdist(reference) - _distances(positions)) ** 2).sum(1)


def _distances(positions: Tensor) -> Tensor:
    i, j = torch.triu_indices(positions.shape[1], positions.shape[1], 1)
    return (positions[:, i] - positions[:, j]).norm(dim=2)


@cache
def target() -> BoltzmannTarget:
    mol = molecule("alanine-dipeptide")
    return BoltzmannTarget(mol, springs, paper_layout(mol))


def small_flow() -> Flow:
    generator = torch.Generator().manual_seed(0)
    return CouplingFlow(target().layout, CouplingConfig(pairs=1, hidden=(8,)), generator=generator, compiled=False)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a reference of samples of the flow, with changes, and returns its folder."""

    def dataset(**changes: object) -> str:
        with torch.no_grad():
            coordinates = small_flow().sample(FRAMES, generator=torch.Generator().manual_seed(4)).numpy()
            internal = torch.from_numpy(changes.pop("coordinates", coordinates))
            positions = target().molecule.coordinates.to_cartesian(internal.double()).positions
            energy = target().reduced_energy(positions).numpy()
        whole = Reference(
            source=positions.float().numpy(),
            pdb="",
            coordinates=internal.numpy(),
            reduced_energy=energy,
            weights=np.linspace(0.5, 1.5, FRAMES),
            chain=np.repeat(np.arange(6), FRAMES // 6),
            provenance={"system": "alanine-dipeptide", "details": {"evaluations": 1234567}},
        )
        replace(whole, **changes).save(tmp_path / "reference")
        return str(tmp_path / "reference")

    return dataset


def config(data: str, *settings: str) -> RunConfig:
    return request("alanine-dipeptide", method="forward-kl", settings=[f"data={data}", *settings])


def test_frames_come_with_their_weights_and_what_they_cost(write: Callable[..., str], caplog) -> None:
    path, counted = write(), CountedTarget(target())
    with caplog.at_level(logging.INFO):
        found = training_samples(config(path), counted, small_flow())
    assert found.coordinates.shape == (FRAMES, 60)
    assert found.coordinates.dtype == torch.float32
    torch.testing.assert_close(found.log_weights.exp(), torch.linspace(0.5, 1.5, FRAMES, dtype=torch.float64))
    assert "60 of the 60 frames" in caplog.text
    assert "cost 1234567 evaluations" in caplog.text
    # In the coordinates of the flow: the energies are those of the reference.
    stored = np.load(Path(path) / "samples.npz")["reduced_energy"]
    np.testing.assert_allclose(-target().evaluate(found.coordinates.double()).log_p.numpy(), stored, rtol=1e-4)
    assert counted.ledger["startup"] == counted.ledger.total == FRAMES


def test_a_reference_in_memory_is_as_good_as_its_directory(write: Callable[..., str]) -> None:
    path = write()
    loaded = Reference.load(path)
    in_memory = replace(loaded, source=loaded.positions)
    named = training_samples(config(path), CountedTarget(target()), small_flow())
    nameless = request("alanine-dipeptide", method="forward-kl")
    given = training_samples(nameless, CountedTarget(target()), small_flow(), in_memory)
    assert torch.equal(named.coordinates, given.coordinates)
    assert torch.equal(named.log_weights, given.log_weights)
    # The run directory names a reference that is on disk, so that the run can be resumed from there.
    assert with_samples(nameless, loaded).settings.data == with_samples(nameless, path).settings.data == path
    assert with_samples(nameless, in_memory) == nameless
    require_samples(nameless, in_memory)
    with pytest.raises(InputError, match="expected a reference, or the setting data=DIR"):
        require_samples(nameless)
    with pytest.raises(InputError, match="reference: cmt does not learn from samples"):
        with_samples(request("alanine-dipeptide"), in_memory)
    with pytest.raises(InputError, match="reference: gmm-2d is not a molecule"):
        with_samples(request("gmm-2d", method="forward-kl"), in_memory)


def test_fewer_frames_are_taken_at_equal_distances(write: Callable[..., str]) -> None:
    found = training_samples(config(write(), "samples=7"), CountedTarget(target()), small_flow())
    expected = np.linspace(0.5, 1.5, FRAMES)[[0, 10, 20, 30, 39, 49, 59]]
    np.testing.assert_allclose(found.log_weights.exp().numpy(), expected)


def test_frames_out_of_range_are_left_out_and_counted(write: Callable[..., str], caplog) -> None:
    coordinates = small_flow().sample(FRAMES, generator=torch.Generator().manual_seed(4)).detach().numpy()
    coordinates[[3, 17], 0] += 0.05
    found = training_samples(config(write(coordinates=coordinates)), CountedTarget(target()), small_flow())
    assert len(found.coordinates) == FRAMES - 2
    kept = np.delete(np.linspace(0.5, 1.5, FRAMES), [3, 17])
    np.testing.assert_allclose(found.log_weights.exp().numpy(), kept)
    assert "2 of 60 lie outside" in caplog.text
    coordinates[:40, 0] += 0.07
    with pytest.raises(InputError, match=r"expected most samples in the range of the flow, got 20 of 60"):
        training_samples(config(write(coordinates=coordinates)), CountedTarget(target()), small_flow())


def test_a_reference_of_something_else_is_refused(write: Callable[..., str]) -> None:
    path = write(coordinates=np.zeros((FRAMES, 60), dtype=np.float32), reduced_energy=np.zeros(FRAMES))
    with pytest.raises(InputError, match="is alanine-dipeptide: the reference: its reduced energies differ"):
        training_samples(config(path), CountedTarget(target()), small_flow())
    with np.load(Path(path) / "samples.npz") as arrays:
        np.savez(Path(path) / "samples.npz", **dict(arrays) | {"coordinates": np.zeros((FRAMES, 57), dtype=np.float32)})
    record = json.loads((Path(path) / "dataset.json").read_text())
    (Path(path) / "dataset.json").write_text(json.dumps(record | {"system": "something"}))
    with pytest.raises(InputError, match="with 60 coordinates, got one of something with 57"):
        training_samples(config(path), CountedTarget(target()), small_flow())


def test_samples_are_found_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert getattr(config("reference").settings, "data", None) == str(tmp_path / "reference")


@pytest.mark.parametrize(("data", "got"), [("", "got none"), ("nowhere", "got .*nowhere, which is not a directory")])
def test_a_run_without_samples_is_refused_before_it_begins(data: str, got: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"{got}; make one with `boltzport reference alanine-dipeptide --out DIR`"):
        run_training(config(data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_toy_is_drawn_from_by_the_seed() -> None:
    counted = CountedTarget(toy("gmm-2d"))
    flow = CouplingFlow(
        counted.layout, CouplingConfig(pairs=1, hidden=(8,)), generator=torch.Generator(), compiled=False
    )
    found = [
        training_samples(request("gmm-2d", method="forward-kl", settings=["samples=500"], seed=seed), counted, flow)
        for seed in (3, 3, 4)
    ]
    assert torch.equal(found[0].coordinates, found[1].coordinates)
    assert not torch.equal(found[0].coordinates, found[2].coordinates)
    assert found[0].coordinates.shape == (500, 2)
    modes = torch.bincount(toy("gmm-2d").mode_of(found[0].coordinates), minlength=3) / 500
    assert modes.tolist() == pytest.approx([0.5, 0.3, 0.2], abs=0.08)
    assert counted.ledger.total == 0


def test_an_interrupted_run_learns_from_the_same_samples(tmp_path: Path, monkeypatch) -> None:
    keys = ["steps=3", "gradient_steps=4", "batch_size=50", "samples=300", "monitor=100", "pairs=1", "hidden=8"]
    config = request("gmm-2d", method="forward-kl", settings=keys, seed=2)
    whole = run_training(config, tmp_path / "whole")
    shown = Display.step

    def interrupting(display: Display, info, **known) -> None:
        shown(display, info, **known)
        if info.step == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Display, "step", interrupting)
        assert run_training(config, tmp_path / "cut").status.state == "interrupted"
    resumed = run_training(config, tmp_path / "cut", resume=True)
    assert {**resumed.rows[-1], "seconds": 0} == {**whole.rows[-1], "seconds": 0}
    assert resumed.ledger.cost == whole.ledger.cost == 300
    flows = [load_flow(tmp_path / name / "flow.safetensors") for name in ("whole", "cut")]
    for left, right in zip(*(flow.parameters() for flow in flows), strict=True):
        assert torch.equal(left, right)
