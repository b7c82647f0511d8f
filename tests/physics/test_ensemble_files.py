"""The files of an ensemble as other programs read them: the same energies, the same torsions, the same weights."""

import warnings
from functools import cache
from pathlib import Path

import mdtraj
import numpy as np
import pytest
import torch

from boltzport.core.units import thermal_energy
from boltzport.energies import ForceField, extract
from boltzport.ensembles import Mode, WrittenEnsemble
from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget
from boltzport.targets.boltzmann import BoltzmannTarget, informed_layout
from ensembles import write_ensemble
from molecules import molecule

TOLERANCE = {".dcd": 1e-2, ".npz": 1e-2, ".pdb": 2.0, ".xtc": 25.0}
"""Largest error in kJ/mol of an energy from the positions of a file: DCD has them in single precision, PDB rounds them
to 1e-4 nm, XTC to 1e-3 nm."""
FRAMES = 60


@cache
def dipeptide() -> tuple[Flow, CountedTarget]:
    """A new flow on the dipeptide, in double precision."""
    aldp = molecule("alanine-dipeptide")
    energy = ForceField(extract(aldp.system), compiled=False)
    layout = informed_layout(aldp, energy)
    generator = torch.Generator().manual_seed(0)
    flow = CouplingFlow(
        layout, CouplingConfig(pairs=1, bins=4, hidden=(16,)), generator=generator, compiled=False
    ).double()
    return flow, CountedTarget(BoltzmannTarget(aldp, energy, layout))


def write(folder: Path, suffix: str, mode: Mode = Mode.RESAMPLED) -> WrittenEnsemble:
    flow, target = dipeptide()
    path = folder / f"samples{suffix}"
    generator = torch.Generator().manual_seed(1)
    return write_ensemble(path, flow, target, FRAMES, mode=mode, draws=2000, generator=generator, batch=500)


def energies(positions: np.ndarray) -> np.ndarray:
    target = dipeptide()[1].target
    assert isinstance(target, BoltzmannTarget)
    reduced = target.reduced_energy(torch.from_numpy(np.asarray(positions, dtype=np.float64)))
    return reduced.numpy() * thermal_energy(300.0)


def stored(folder: Path, suffix: str) -> dict[str, np.ndarray]:
    name = "samples.npz" if suffix == ".npz" else "samples.weights.npz"
    return dict(np.load(folder / name))


def read_mdtraj(folder: Path, suffix: str) -> np.ndarray:
    path, topology = folder / f"samples{suffix}", folder / "samples.topology.pdb"
    if suffix == ".npz":
        trajectory = mdtraj.Trajectory(np.load(path)["positions"], mdtraj.load_topology(topology))
    else:
        trajectory = mdtraj.load(path) if suffix == ".pdb" else mdtraj.load(path, top=topology)
    _, phi = mdtraj.compute_phi(trajectory)
    numbers = stored(folder, suffix)
    column = list(numbers["torsion_names"]).index("ALA2.phi")
    difference = (phi[:, 0] - numbers["torsions"][:, column] + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(difference).max() < 0.05
    return np.asarray(trajectory.xyz)


def read_mdanalysis(folder: Path, suffix: str) -> np.ndarray:
    with warnings.catch_warnings():
        # It warns of what a file without masses and boxes lacks, and of its own deprecations.
        warnings.simplefilter("ignore")
        import MDAnalysis

        path, topology = folder / f"samples{suffix}", str(folder / "samples.topology.pdb")
        if suffix == ".npz":
            universe = MDAnalysis.Universe(topology, np.load(path)["positions"] * 10)
        else:
            universe = MDAnalysis.Universe(str(path)) if suffix == ".pdb" else MDAnalysis.Universe(topology, str(path))
        assert list(universe.atoms.names[:3]) == list(molecule("alanine-dipeptide").topology.names[:3])
        return np.stack([step.positions.copy() for step in universe.trajectory]) / 10


@pytest.mark.parametrize("read", [read_mdtraj, read_mdanalysis])
@pytest.mark.parametrize("suffix", list(TOLERANCE))
def test_others_find_the_stored_energies(tmp_path: Path, suffix: str, read) -> None:
    written = write(tmp_path, suffix)
    positions = read(tmp_path, suffix)
    assert positions.shape == (FRAMES, 22, 3)
    error = np.abs(energies(positions) - stored(tmp_path, suffix)["reduced_energy"] * thermal_energy(300.0))
    assert error.max() < TOLERANCE[suffix]
    assert bool(written.notes) == (suffix == ".xtc")
    if suffix == ".xtc":
        assert error.mean() > 1.0, "the note says that energies from XTC are off; they are not"


def test_the_table_of_plumed_gives_the_weights(tmp_path: Path) -> None:
    written = write(tmp_path, ".dcd", Mode.WEIGHTED)
    names = {path.name for path in written.files}
    assert names == {"samples.dcd", "samples.weights.npz", "samples.colvar", "samples.topology.pdb"}
    lines = (tmp_path / "samples.colvar").read_text().splitlines()
    fields = lines[0].split()[2:]
    assert fields == ["time", "ACE1.omega", "ALA2.phi", "ALA2.psi", "ALA2.omega", "energy", "flow.bias"]
    assert "#! SET min_ALA2.phi -pi" in lines
    table = dict(zip(fields, np.loadtxt(lines).T, strict=True))
    numbers = stored(tmp_path, ".dcd")
    weights = np.exp(table["flow.bias"] / thermal_energy(300.0))
    np.testing.assert_allclose(weights / weights.mean(), numbers["weights"], atol=1e-4)
    np.testing.assert_allclose(table["energy"], numbers["reduced_energy"] * thermal_energy(300.0), rtol=1e-6)
    trajectory = mdtraj.load(tmp_path / "samples.dcd", top=tmp_path / "samples.topology.pdb")
    np.testing.assert_allclose(table["ALA2.psi"], mdtraj.compute_psi(trajectory)[1][:, 0], atol=1e-3)


def test_weights_are_those_of_densities_of_positions(tmp_path: Path) -> None:
    write(tmp_path, ".npz", Mode.WEIGHTED)
    numbers = stored(tmp_path, ".npz")
    flow, _ = dipeptide()
    positions = torch.from_numpy(numbers["positions"]).double()
    coordinates, log_det = molecule("alanine-dipeptide").coordinates.to_internal(positions)
    with torch.no_grad():
        log_q = flow.log_prob(coordinates) + log_det
    np.testing.assert_allclose(numbers["log_q"], log_q.numpy(), atol=0.01)
    np.testing.assert_allclose(numbers["log_weights"], -numbers["reduced_energy"] - numbers["log_q"], rtol=1e-12)
    assert log_det.abs().min() > 10.0, "a wrong sign of the determinant would not show"
