"""Weights belong to their frames: no file of weights serves other frames, and a reference uses them."""

from pathlib import Path

import numpy as np
import pytest

import boltzport
from boltzport.core.belonging import read_belonging, weights_beside
from boltzport.core.errors import InputError
from boltzport.ensembles import check_file
from boltzport.ensembles.reference import Reference, check_output


@pytest.fixture(scope="module")
def model():
    with boltzport.load("alanine-dipeptide") as loaded:
        yield loaded


@pytest.fixture(scope="module")
def written(model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("frames") / "s.dcd"
    model.write(path, 600, seed=1)
    return path


def test_weights_name_their_frames(written: Path) -> None:
    found = read_belonging(written.with_suffix(".weights.npz"))
    assert found.frames == "s.dcd"
    assert len(found.sha256) == 64
    weights = weights_beside(written)
    assert weights is not None
    assert weights.mean() == pytest.approx(1.0)
    assert np.ptp(weights) > 0.0


def test_other_frames_of_the_same_stem_do_not_take_them(model, written: Path) -> None:
    before = written.with_suffix(".weights.npz").read_bytes()
    target = model.target.counted.target
    for overwrite in (False, True):
        with pytest.raises(InputError, match=r"has the weights of s\.dcd, which would be lost"):
            check_file(written.with_suffix(".xtc"), target, overwrite=overwrite)
    with pytest.raises(InputError, match=r"s\.dcd exists; choose another name"):
        check_file(written, target, overwrite=False)
    check_file(written, target)
    assert written.with_suffix(".weights.npz").read_bytes() == before


def test_weights_of_changed_frames_are_refused(written: Path, tmp_path: Path) -> None:
    for name in (written.name, written.with_suffix(".weights.npz").name):
        (tmp_path / name).write_bytes((written.parent / name).read_bytes())
    frames = tmp_path / written.name
    frames.write_bytes(frames.read_bytes()[:-4] + b"\0\0\0\1")
    with pytest.raises(InputError, match="weights of other frames"):
        weights_beside(frames)
    frames.with_suffix(".weights.npz").write_bytes(b"rubbish")
    with pytest.raises(InputError, match="cannot be read"):
        weights_beside(frames)


def test_a_reference_from_our_frames_uses_their_weights(model, written: Path) -> None:
    topology = written.with_suffix(".topology.pdb")
    found = Reference.from_trajectory(model.molecule, written, topology=topology)
    assert np.array_equal(found.weights, weights_beside(written))
    assert found.provenance["details"]["weighted"] is True
    message = found.provenance["diagnostics"]["message"]
    assert "600 weighted frames are worth" in message


def test_few_effective_frames_are_not_converged() -> None:
    from boltzport.ensembles.reference.diagnostics import Diagnostics, of_weights

    fine = Diagnostics(
        converged=True,
        message="converged: all",
        rhat={},
        ess={},
        slowest="",
        transitions=0,
        swap_rates=[],
        round_trips=None,
        strained=0.0,
    )
    weights = np.ones(1000)
    assert of_weights(fine, weights).converged
    weights[0] = 500.0
    found = of_weights(fine, weights)
    assert not found.converged
    assert "1000 weighted frames are worth 9 of equal weight, expected above 400" in found.message


def test_a_reference_is_not_overwritten(tmp_path: Path) -> None:
    check_output(tmp_path, overwrite=False)
    (tmp_path / "positions.dcd").touch()
    with pytest.raises(InputError, match="holds a reference; choose another directory, or overwrite it with --force"):
        check_output(tmp_path, overwrite=False)
    check_output(tmp_path, overwrite=True)
    with pytest.raises(InputError, match="is not a directory"):
        check_output(tmp_path / "positions.dcd", overwrite=True)
