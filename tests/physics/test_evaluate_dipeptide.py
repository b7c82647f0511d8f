"""Evaluation of an untrained flow on the dipeptide: every figure of the paper is there, under its name."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import openmm.app
import pytest
import torch

from boltzport.analysis.evaluation import evaluate
from boltzport.analysis.evaluation.observables import observables
from boltzport.analysis.metrics import Results
from boltzport.energies import ForceField, extract
from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.molecules import Kind, Molecule
from boltzport.targets import CountedTarget, toy
from boltzport.targets.boltzmann import BoltzmannTarget, informed_layout
from molecules import molecule


@dataclass(frozen=True, kw_only=True)
class Frames:
    coordinates: np.ndarray
    reduced_energy: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    provenance: Mapping[str, object] = field(default_factory=dict)


@cache
def dipeptide() -> BoltzmannTarget:
    mol = molecule("alanine-dipeptide")
    energy = ForceField(extract(mol.system), compiled=False)
    return BoltzmannTarget(mol, energy, informed_layout(mol, energy))


def untrained() -> Flow:
    generator = torch.Generator().manual_seed(0)
    return CouplingFlow(dipeptide().layout, CouplingConfig(pairs=1, hidden=(8,)), generator=generator, compiled=False)


def frames(*, weighted: bool) -> Frames:
    """Samples of the flow itself: by their weights they are a reference; in the order of phi, they have a time."""
    with torch.no_grad():
        samples = untrained().sample_and_log_prob(3000, generator=torch.Generator().manual_seed(9))
        found = dipeptide().evaluate(samples.coordinates)
    low = torch.argsort(found.log_p, descending=True)[:1600]
    log_weights = (found.log_p + found.log_volume - samples.log_q.double())[low]
    coordinates, energy = samples.coordinates[low].numpy(), -found.log_p[low].numpy()
    weights = np.exp(log_weights.numpy() - float(log_weights.max()))
    phi = observables(dipeptide()).pairs[0].first
    chain = np.arange(1600) % 16
    order = np.argsort(coordinates[:, phi], kind="stable")
    return Frames(
        coordinates=coordinates[order],
        reduced_energy=energy[order],
        weights=weights[order] / weights.mean() if weighted else np.ones(1600),
        chain=chain,
    )


def run(reference: Frames | None) -> Results:
    return evaluate(
        untrained(),
        CountedTarget(dipeptide()),
        n=4000,
        generator=torch.Generator().manual_seed(1),
        reference=reference,
        batch=2000,
        transport_samples=150,
    )


def test_without_a_reference() -> None:
    found = run(None)
    result = found.to_json()
    assert json.loads(json.dumps(result)) == result
    keys = "ess ess_unclipped pareto_k log_z log_z_error elbo mean_reduced_energy basins temperatures missing_mass"
    assert set(keys.split()) <= set(result)
    assert 0.0 < result["ess"] < 1.0
    # The page shows it, and samples are then defended.
    assert any("Pareto k" in warning and "(--defensive)" in warning for warning in result["warnings"])
    assert "nothing to compare" in result["missing_mass"]["message"]
    assert len(found.arrays["marginal_0_edges"]) == 101
    assert f"marginal_{len(dipeptide().layout) - 1}_model" in found.arrays
    assert "ramachandran_ALA2_reference" not in found.arrays
    # phi and psi are uniform in the base density, so the samples are uniform on the torus.
    plane = found.arrays["ramachandran_ALA2_model"]
    assert plane.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(plane.reshape(10, 10, 10, 10).sum((1, 3)), 0.01, atol=0.008)
    # Structures of basins have the energies that they were chosen by.
    positions = torch.from_numpy(found.arrays["representative_positions"])
    with_structure = [basin for basin in result["basins"] if basin["representative"] is not None]
    assert len(with_structure) == len(positions) > 1
    assert sum(basin["population_model"] for basin in result["basins"]) == pytest.approx(1.0)
    assert (dipeptide().reduced_energy(positions) < 200).all()


def test_with_a_weighted_reference() -> None:
    found = run(frames(weighted=True))
    result = found.to_json()
    assert [row["name"] for row in result["ramachandran"]] == ["ALA2", "mean"]
    for key in ("kl", "kl_reweighted", "tv", "tv_reweighted"):
        assert result["ramachandran"][0][key] == result["ramachandran"][1][key] > 0
        assert f"ramachandran.ALA2.{key}" in result["intervals"]
        assert f"ramachandran.mean.{key}" in result["noise_floor"]
    assert "weighted" in result["tica"]["reason"]
    assert result["eubo"] > result["log_z"] > result["elbo"]
    # The mean energy of the samples by weight is that of the frames by weight.
    reference = frames(weighted=True)
    expected = np.average(reference.reduced_energy, weights=reference.weights)
    assert result["mean_reduced_energy"] == pytest.approx(expected, abs=12.0)
    assert set(result["wasserstein"]) == {"torus", "torus_reweighted", "energy", "energy_reweighted", "samples"}


def test_with_a_reference_in_the_order_of_time() -> None:
    found = run(frames(weighted=False))
    result = found.to_json()
    assert result["tica"]["correlations"][0] > 0.5
    assert result["tica"]["kl"] > 0
    assert len(result["coordinates"]) == 60
    assert {"ALA2.phi", "ALA2.psi"} <= set(result["coordinates"])
    assert result["wasserstein"]["tica"] > 0
    assert found.arrays["tica_reference"].sum() == pytest.approx(1.0)
    profile = found.arrays["phi_profile_ALA2_reference"]
    assert profile.min() == 0.0
    assert result["phi_profile"][0]["mae"] > 0


def peroxide() -> Molecule:
    """Hydrogen peroxide with springs: a molecule without a residue that chemists name torsions of."""
    topology, system = openmm.app.Topology(), openmm.System()
    residue = topology.addResidue("HOO", topology.addChain())
    elements = [openmm.app.element.get_by_symbol(symbol) for symbol in "HOOH"]
    atoms = [topology.addAtom(f"A{number}", element, residue) for number, element in enumerate(elements)]
    springs, bends, turns = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    for first, second, length in ((0, 1, 0.097), (1, 2, 0.147), (2, 3, 0.097)):
        topology.addBond(atoms[first], atoms[second])
        springs.addBond(first, second, length, 3e5)
    for element in elements:
        system.addParticle(element.mass)
    bends.addAngle(0, 1, 2, 1.75, 500.0)
    bends.addAngle(1, 2, 3, 1.75, 500.0)
    turns.addTorsion(0, 1, 2, 3, 2, 0.0, 5.0)
    for force in (springs, bends, turns):
        system.addForce(force)
    positions = np.array([[0.0, 0.09, 0.03], [0.0, 0.0, 0.0], [0.147, 0.0, 0.0], [0.16, -0.02, 0.09]])
    return Molecule(system, topology=topology, positions=positions, name="peroxide")


def test_a_molecule_without_phi_and_psi_has_no_map_of_bond_lengths() -> None:
    """Its first two coordinates are bonds: their density says nothing of its conformations."""
    small = peroxide()
    field = ForceField(extract(small.system), compiled=False)
    seen = observables(BoltzmannTarget(small, field, informed_layout(small, field)))
    assert seen.pairs == ()
    assert small.coordinates.columns[0].kind is Kind.BOND
    assert seen.plane is None
    assert observables(toy("gmm-2d")).plane == (0, 1)
