"""Trajectories of other programs: matched, relabelled, or refused by name."""

from pathlib import Path

import mdtraj
import numpy as np
import openmm.app
import openmm.unit
import pytest
import torch

from boltzport.core.errors import InputError
from boltzport.core.units import thermal_energy
from boltzport.energies import ForceField, extract
from boltzport.ensembles.reference import Sampled, import_trajectory
from boltzport.molecules import Constraints, Molecule
from molecules import cached_load, molecule


def thermal(system: Molecule, *, frames: int = 5) -> np.ndarray:
    """Snapshots of dynamics in nm."""
    integrator = openmm.LangevinMiddleIntegrator(300, 5, 0.001)
    integrator.setRandomNumberSeed(3)
    context = openmm.Context(system.system, integrator, openmm.Platform.getPlatform("Reference"))
    context.setPositions(system.positions)
    context.setVelocitiesToTemperature(300, 3)
    found = []
    for _ in range(frames):
        integrator.step(40)
        found.append(context.getState(positions=True).getPositions(asNumpy=True).value_in_unit(openmm.unit.nanometer))
    return np.array(found)


def written(
    tmp_path: Path, system: Molecule, frames: np.ndarray, *, order: np.ndarray | None = None, suffix: str = "dcd"
) -> tuple[Path, Path]:
    """Files of a program with another atom order: atom i of the file is our atom order[i]."""
    topology = mdtraj.Topology.from_openmm(system.openmm_topology)
    trajectory = mdtraj.Trajectory(frames, topology)
    if order is not None:
        trajectory = mdtraj.Trajectory(frames[:, order], reordered(topology, order))
    paths = tmp_path / f"frames.{suffix}", tmp_path / "topology.pdb"
    trajectory.save(str(paths[0]))
    trajectory[0].save_pdb(str(paths[1]))
    return paths


def reordered(topology: mdtraj.Topology, order: np.ndarray) -> mdtraj.Topology:
    found = mdtraj.Topology()
    chain = found.add_chain()
    residues = [found.add_residue(residue.name, chain, residue.resSeq) for residue in topology.residues]
    for i in order:
        atom = topology.atom(int(i))
        found.add_atom(atom.name, atom.element, residues[atom.residue.index])
    return found


def read(paths: tuple[Path, Path], system: Molecule) -> Sampled:
    return import_trajectory(*paths, system, ForceField(extract(system.system), compiled=False))


def shuffled_within_residues(system: Molecule) -> np.ndarray:
    random = np.random.default_rng(0)
    residues = np.array(system.topology.residues)
    return np.concatenate([random.permutation(np.flatnonzero(residues == k)) for k in range(residues.max() + 1)])


def test_another_atom_order_comes_back_in_ours(tmp_path: Path) -> None:
    system = molecule("alanine-dipeptide")
    frames = thermal(system)
    found = read(written(tmp_path, system, frames, order=shuffled_within_residues(system)), system)
    np.testing.assert_allclose(found.positions, frames, atol=2e-6)
    energies = ForceField(extract(system.system), compiled=False)(torch.from_numpy(frames))
    np.testing.assert_allclose(found.reduced_energy, energies / thermal_energy(300.0), atol=2e-3)
    assert found.details["relabelled"] == []


def test_xtc_is_unpacked_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MDTraj does not check it: a damaged file corrupts the memory of the process that reads it."""
    system = molecule("alanine-dipeptide")
    frames = thermal(system)
    paths = written(tmp_path, system, frames, suffix="xtc")
    monkeypatch.setattr(mdtraj, "load", None)
    np.testing.assert_allclose(read(paths, system).positions, frames, atol=6e-4)


@pytest.mark.parametrize(
    ("name", "kinds"), [("ACE-VAL-NME", {"CH3", "methyls"}), ("ACE-LYS-NME", {"CH3", "CH2", "NH3"})]
)
def test_equivalent_atoms_are_put_into_our_order(tmp_path: Path, name: str, kinds: set[str]) -> None:
    """Two equivalent atoms, or branches, change places in every group: our handedness must be found again."""
    system = molecule(name)
    assert {group.kind for group in system.permutation_groups} == kinds
    frames = thermal(system, frames=2)
    topology = system.topology
    order = np.arange(topology.n_atoms)
    for group in system.permutation_groups:
        branches = []
        for root in group.atoms[:2]:
            others = [atom for atom in topology.neighbours[root] if atom != group.centre]
            branches.append([root, *others])
        order[branches[0]], order[branches[1]] = order[branches[1]], order[branches[0]]
    swapped = frames[:, order]
    before = system.coordinates.to_internal(torch.from_numpy(swapped)).coordinates
    signs = torch.tensor([column.sign for column in system.coordinates.columns])
    assert bool((before * signs < 0).any())
    found = read(written(tmp_path, system, swapped), system)
    assert bool((torch.from_numpy(found.coordinates)[:, signs != 0] * signs[signs != 0] > 0).all())
    assert len(found.details["relabelled"]) == len(system.permutation_groups)
    energies = ForceField(extract(system.system), compiled=False)(torch.from_numpy(frames))
    np.testing.assert_allclose(found.reduced_energy, energies / thermal_energy(300.0), atol=3e-3)


def test_a_mirror_image_is_refused(tmp_path: Path) -> None:
    system = molecule("alanine-dipeptide")
    mirrored = thermal(system) * np.array([1.0, 1.0, -1.0])
    with pytest.raises(InputError, match=r"ALA2\.CA has the opposite chirality"):
        read(written(tmp_path, system, mirrored), system)


def test_another_molecule_is_refused_by_what_differs(tmp_path: Path) -> None:
    system, other = molecule("ACE-SER-NME"), molecule("ACE-CYS-NME")
    assert system.topology.n_atoms == other.topology.n_atoms
    with pytest.raises(InputError, match="expected the residues ACE-SER-NME, got ACE-CYS-NME"):
        read(written(tmp_path, other, thermal(other, frames=1)), system)
    dipeptide = molecule("alanine-dipeptide")
    with pytest.raises(InputError, match="expected a trajectory of 22 atoms, got 23"):
        read(written(tmp_path, other, thermal(other, frames=1)), dipeptide)


def test_flexible_bonds_are_refused_where_they_are_constants(tmp_path: Path) -> None:
    free = molecule("alanine-dipeptide")
    fixed = cached_load("alanine-dipeptide", constraints=Constraints.HBONDS)
    with pytest.raises(InputError, match="constraints none"):
        read(written(tmp_path, free, thermal(free)), fixed)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    system = molecule("alanine-dipeptide")
    trajectory, topology = written(tmp_path, system, thermal(system, frames=1))
    with pytest.raises(InputError, match="no such file"):
        read((tmp_path / "none.dcd", topology), system)
    trajectory.write_bytes(b"not a trajectory")
    with pytest.raises(InputError, match="could not be read"):
        read((trajectory, topology), system)
