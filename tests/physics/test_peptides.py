"""Every residue and every system of the paper: exact coordinates on real molecules."""

import math
import subprocess
import sys

import mdtraj
import numpy as np
import openmm
import openmm.unit
import pytest
import torch

from boltzport.molecules import CoordinateMap, Kind, Molecule
from laws import full_log_det, shapes_differ_by
from molecules import CAPPED, PAPER, molecule


def perturbed(mol: Molecule, *, scale: float, n: int = 8) -> torch.Tensor:
    noise = torch.randn(n, *mol.positions.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(mol.positions) + scale * noise


def all_bonds_free(mol: Molecule) -> CoordinateMap:
    return CoordinateMap(mol.zmatrix)


@pytest.mark.parametrize("name", [*PAPER, *CAPPED])
@pytest.mark.parametrize("scale", [0.0, 0.1], ids=["minimised", "strongly perturbed"])
def test_round_trip(name: str, scale: float) -> None:
    map_ = all_bonds_free(molecule(name))
    positions = perturbed(molecule(name), scale=scale)
    there = map_.to_internal(positions)
    back = map_.to_cartesian(there.coordinates)
    assert shapes_differ_by(positions, back.positions) < 1e-9
    assert (there.log_det + back.log_det).abs().max() < 1e-9


@pytest.mark.parametrize("name", PAPER)
def test_round_trip_of_the_reference_with_constraints(name: str) -> None:
    mol = molecule(name)
    positions = torch.from_numpy(mol.positions)[None]
    back = mol.coordinates.to_cartesian(mol.coordinates.to_internal(positions).coordinates).positions
    assert shapes_differ_by(positions, back) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PAPER, *CAPPED])
def test_log_det_is_that_of_the_full_jacobian(name: str) -> None:
    map_ = all_bonds_free(molecule(name))
    for positions in (perturbed(molecule(name), scale=0.0, n=1), perturbed(molecule(name), scale=0.1, n=1)):
        there = map_.to_internal(positions)
        assert full_log_det(map_, there.coordinates[0]) == pytest.approx(-there.log_det.item(), abs=1e-8)


@pytest.mark.parametrize("name", [*PAPER, *CAPPED, "PKHA", "ACE-HIP-ASH-GLH-NME"])
def test_named_torsions_are_coordinates_with_mdtrajs_values(name: str) -> None:
    mol = molecule(name)
    positions = perturbed(mol, scale=0.01, n=3)
    internal = mol.coordinates.to_internal(positions).coordinates
    named = {
        column.name: internal[:, i].numpy()
        for i, column in enumerate(mol.coordinates.columns)
        if column.kind is Kind.TORSION and column.name in set(mol.zmatrix.names.values())
    }
    trajectory = mdtraj.Trajectory(positions.numpy(), mdtraj.Topology.from_openmm(mol.openmm_topology))
    expected = {}
    for kind, function in {
        "phi": mdtraj.compute_phi,
        "psi": mdtraj.compute_psi,
        "omega": mdtraj.compute_omega,
        "chi1": mdtraj.compute_chi1,
        "chi2": mdtraj.compute_chi2,
        "chi3": mdtraj.compute_chi3,
        "chi4": mdtraj.compute_chi4,
    }.items():
        atoms, values = function(trajectory)
        for quartet, value in zip(atoms, values.T, strict=True):
            # IUPAC counts a torsion to the residue of its second atom (omega: of its first).
            residue = mol.topology.residues[quartet[0 if kind == "omega" else 1]]
            expected[f"{mol.topology.residue_labels[residue]}.{kind}"] = value
    assert expected.keys() <= named.keys()
    # mdtraj knows no omega at a cap and no fifth chi.
    assert all("omega" in key or "chi5" in key for key in named.keys() - expected.keys())
    for key, value in expected.items():
        difference = np.remainder(named[key] - value + math.pi, 2 * math.pi) - math.pi
        assert np.abs(difference).max() < 1e-3, key


@pytest.mark.parametrize("name", [*PAPER, *CAPPED])
def test_reference_is_a_minimum_with_trans_bonds(name: str) -> None:
    mol = molecule(name)
    context = openmm.Context(mol.system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatform("Reference"))
    context.setPositions(mol.positions)
    energy = context.getState(energy=True).getPotentialEnergy().value_in_unit(openmm.unit.kilojoule_per_mole)
    openmm.LocalEnergyMinimizer.minimize(context, tolerance=1e-3)
    again = context.getState(energy=True).getPotentialEnergy().value_in_unit(openmm.unit.kilojoule_per_mole)
    assert energy - again < 0.01
    internal = mol.coordinates.to_internal(torch.from_numpy(mol.positions)[None]).coordinates[0]
    omegas = [internal[i] for i, column in enumerate(mol.coordinates.columns) if column.name.endswith(".omega")]
    assert omegas
    assert all(abs(omega) > math.radians(150) for omega in omegas)


@pytest.mark.slow
def test_reference_is_the_same_in_every_process() -> None:
    script = """
import hashlib, random
from boltzport.molecules import Molecule
before = random.getstate()
print(hashlib.sha256(Molecule("ELIL").positions.tobytes()).hexdigest(), random.getstate() == before)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().endswith(" True\n"), "the global random generator was left changed"


@pytest.mark.parametrize(
    ("sequence", "ph", "charge"),
    [
        ("ELIL", 7.0, -1),
        ("ACE-DEKRH-NME", 7.0, 0),
        ("ACE-DEKRH-NME", 2.0, 3),
        ("ACE-DEKRH-NME", 11.0, -1),
        ("ACE-HIP-NME", 7.0, 1),
        ("ACE-ASH-GLH-LYN-NME", 7.0, 0),
        ("AAA", 7.0, 0),
        ("ACE-AAAA", 7.0, -1),
        ("AAAA-NME", 7.0, 1),
    ],
)
def test_protonation(sequence: str, ph: float, charge: int) -> None:
    mol = Molecule(sequence, ph=ph)
    force = next(force for force in mol.system.getForces() if isinstance(force, openmm.NonbondedForce))
    charges = [
        force.getParticleParameters(i)[0].value_in_unit(openmm.unit.elementary_charge)
        for i in range(mol.topology.n_atoms)
    ]
    assert sum(charges) == pytest.approx(charge, abs=1e-6)


@pytest.mark.parametrize(
    "forcefield",
    [
        ("amber14-all.xml", "implicit/gbn2.xml"),
        ("amber96", "implicit/obc1"),
        pytest.param(("charmm36.xml",), marks=pytest.mark.slow),
    ],
    ids="+".join,
)
@pytest.mark.parametrize("sequence", ["ACE-ALA-NME", "ACE-GV-NME", "ACE-AL", "KD"])
def test_any_forcefield_of_openmm(forcefield: tuple[str, ...], sequence: str) -> None:
    mol = Molecule(sequence, forcefield=forcefield)
    hydrogens = sum(mol.topology.is_hydrogen(atom) for atom in range(mol.topology.n_atoms))
    assert mol.forcefield == forcefield
    assert mol.coordinates.dimension == 3 * mol.topology.n_atoms - 6 - hydrogens
    assert mol.topology.residue_names[0] == ("ACE" if "ACE" in sequence else "LYS")
