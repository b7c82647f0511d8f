"""Datasets on disk: what is saved comes back, and what was changed is noticed."""

import json
from dataclasses import replace
from pathlib import Path

import mdtraj
import numpy as np
import pytest

from boltzport.core.errors import InputError
from boltzport.ensembles.reference import HmcSettings, Reference, RemdSettings
from molecules import molecule


@pytest.fixture
def dataset(tmp_path: Path) -> Reference:
    system = molecule("alanine-dipeptide")
    system.write_pdb(tmp_path / "structure.pdb")
    random = np.random.default_rng(0)
    frames = 7
    return Reference(
        source=(system.positions + 0.01 * random.normal(size=(frames, 22, 3))).astype(np.float32),
        pdb=(tmp_path / "structure.pdb").read_text(),
        coordinates=random.normal(size=(frames, 60)).astype(np.float32),
        reduced_energy=random.normal(size=frames),
        weights=random.uniform(size=frames),
        chain=np.array([0, 0, 0, 0, 1, 1, 1]),
        provenance={"system": "alanine-dipeptide", "seed": 3},
    )


def test_what_is_saved_comes_back(dataset: Reference, tmp_path: Path) -> None:
    dataset.save(tmp_path / "deep" / "reference")
    found = Reference.load(tmp_path / "deep" / "reference")
    np.testing.assert_allclose(found.positions, dataset.positions, rtol=0, atol=1e-7)
    assert found.positions.dtype == np.float32
    for name in ("coordinates", "reduced_energy", "weights", "chain"):
        np.testing.assert_array_equal(getattr(found, name), getattr(dataset, name))
    assert found.provenance["seed"] == 3
    assert found.provenance["frames"] == len(found) == 7
    assert found.pdb == dataset.pdb


def test_frames_are_read_in_batches(dataset: Reference, tmp_path: Path) -> None:
    saved = dataset.save(tmp_path / "reference")
    for each in (dataset, saved):
        batches = list(each.batches(3))
        assert [len(batch) for batch in batches] == [3, 3, 1]
        np.testing.assert_allclose(np.concatenate(batches), dataset.positions, rtol=0, atol=1e-7)


def test_others_can_read_the_files(dataset: Reference, tmp_path: Path) -> None:
    dataset.save(tmp_path)
    frames = mdtraj.load(str(tmp_path / "positions.dcd"), top=str(tmp_path / "reference.pdb"))
    np.testing.assert_allclose(frames.xyz, dataset.positions, rtol=0, atol=1e-6)


def test_a_changed_file_is_noticed(dataset: Reference, tmp_path: Path) -> None:
    dataset.save(tmp_path)
    data = bytearray((tmp_path / "positions.dcd").read_bytes())
    data[-20] ^= 1
    (tmp_path / "positions.dcd").write_bytes(bytes(data))
    with pytest.raises(InputError, match="checksum"):
        Reference.load(tmp_path)


@pytest.mark.parametrize("name", ["dataset.json", "positions.dcd", "samples.npz", "reference.pdb"])
def test_a_missing_file_is_named(dataset: Reference, tmp_path: Path, name: str) -> None:
    dataset.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(InputError, match=f"expected {name} in it"):
        Reference.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text"])
def test_samples_that_are_cut_short_are_named(dataset: Reference, tmp_path: Path, content: bytes) -> None:
    dataset.save(tmp_path)
    (tmp_path / "samples.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"samples\.npz cannot be read"):
        Reference.load(tmp_path)


def test_provenance_is_plain_json(dataset: Reference, tmp_path: Path) -> None:
    dataset.save(tmp_path)
    assert json.loads((tmp_path / "dataset.json").read_text())["checksum"]
    (tmp_path / "dataset.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        Reference.load(tmp_path)


def test_a_directory_that_cannot_be_made(dataset: Reference, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        dataset.save(tmp_path / "file" / "reference")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ladders": 1}, "ladders of at least 2"),
        ({"hottest": 1.0}, "hottest above 1"),
        ({"acceptance": 1.0}, "acceptance between 0 and 1"),
        ({"rungs": 0}, "at least 1 rung"),
        ({"samples": 10**9}, "ask for more iterations"),
    ],
)
def test_settings_of_hmc_are_checked(changes: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(HmcSettings(), **changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperatures": (300.0, 290.0)}, "increasing temperatures"),
        ({"temperatures": ()}, "increasing temperatures"),
        ({"length": 0.0}, "length above 0"),
        ({"friction": -1.0}, "friction above 0"),
        ({"exchange_every": 0}, "exchange_every of at least 1"),
        ({"save_interval": 1e-4}, "time step below save_interval"),
    ],
)
def test_settings_of_dynamics_are_checked(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        replace(RemdSettings(), **changes)
