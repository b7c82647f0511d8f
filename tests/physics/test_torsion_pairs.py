"""A molecule without phi and psi is evaluated by its own torsions."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from boltzport.analysis.evaluation import evaluate
from boltzport.analysis.evaluation.observables import observables, with_pairs
from boltzport.core.layout import LayoutKind
from boltzport.flows import MolecularConfig, build_flow
from boltzport.targets import CountedTarget, Ledger
from boltzport.targets.boltzmann import BoltzmannTarget, build_space, open_energy, rotors
from molecules import molecule


def target_of(name: str) -> BoltzmannTarget:
    small = molecule(name)
    energy = open_energy(small).evaluate
    space = build_space(LayoutKind.HARMONIC, small, energy)
    return BoltzmannTarget(small, energy, space.layout, space.map)


def bonds(name: str) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    small = molecule(name)
    columns, found = small.coordinates.columns, rotors(small)
    return (
        {tuple(sorted(columns[place].atoms[1:3])) for place in found.telling},
        {tuple(sorted(columns[place].atoms[1:3])) for place in found.symmetric},
    )


@pytest.mark.parametrize(
    ("name", "telling", "symmetric"),
    [
        ("smiles:CCCC", {(1, 2)}, {(0, 1), (2, 3)}),
        ("CCO", {(1, 2)}, {(0, 1)}),
        ("OCC(F)(F)F", {(0, 1)}, {(1, 2)}),
        ("CC(=O)Nc1ccccc1", {(1, 3)}, {(0, 1), (3, 4)}),
        ("C1CCCCC1", set(), set()),
    ],
)
def test_which_torsions_tell_conformers_apart(
    name: str, telling: set[tuple[int, ...]], symmetric: set[tuple[int, ...]]
) -> None:
    assert bonds(name) == (telling, symmetric)


def test_a_peptide_has_its_backbone() -> None:
    seen = observables(target_of("ACE-GLY-NME"))
    assert [pair.name for pair in seen.pairs] == ["GLY2"]
    assert seen.backbone
    assert with_pairs(seen, np.zeros((1, len(seen.names))), np.ones(1)) is seen


@dataclass(frozen=True, kw_only=True)
class Frames:
    """A reference of the samples of a flow, with their weights."""

    coordinates: np.ndarray
    reduced_energy: np.ndarray
    weights: np.ndarray
    chain: np.ndarray
    provenance: dict[str, object] = field(default_factory=dict)


def test_the_evaluation_of_a_small_molecule_is_by_its_torsions() -> None:
    target, generator = target_of("OCCF"), torch.Generator().manual_seed(0)
    flow = build_flow(target.layout, MolecularConfig(), generator=generator, compiled=False)
    drawn = flow.sample(4000, generator=generator).detach()
    internal = target.internal(drawn).double().numpy()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 4000)
    frames = Frames(
        coordinates=internal,
        reduced_energy=-target.evaluate(drawn.double()).log_p.numpy(),
        weights=weights,
        chain=np.arange(4000) // 1000,
    )
    found = evaluate(flow, CountedTarget(target, Ledger()), n=2000, generator=generator, reference=frames)
    columns = target.molecule.coordinates.columns
    maps = [key.removeprefix("torsions_") for key in found.arrays if key.startswith("torsions_")]
    (name,) = {key.rpartition("_")[0] for key in maps}
    first, second = name.split("_")
    by_name = {column.name.replace("MOL1.", ""): place for place, column in enumerate(columns)}
    assert {by_name[first], by_name[second]} == set(rotors(target.molecule).telling)
    truth = np.histogram2d(
        internal[:, by_name[first]], internal[:, by_name[second]], 100, 2 * [(-math.pi, math.pi)], weights=weights
    )[0]
    np.testing.assert_allclose(found.arrays[f"torsions_{name}_reference"], truth / truth.sum(), atol=2e-4)
    assert 0.0 < found[f"torsion_pairs.{name}.tv"].value < 1.0
    assert found["torsion_pairs.mean.kl"].value == found[f"torsion_pairs.{name}.kl"].value
    assert f"torsion_profile.{name}.mae" in found
    assert not any(key.startswith("ramachandran") for key in found)
    # The basins of the reference are its sectors: those of 60 degrees about 180 are ap.
    sector = {place: np.floor((np.degrees(internal[:, place]) + 30.0) / 60.0) % 6 for place in by_name.values()}
    ap = np.logical_and(*(sector[place] == 3 for place in rotors(target.molecule).telling))
    basins = {basin["name"]: basin for basin in found.details["basins"]}
    share = weights[ap].sum() / weights.sum()
    assert basins["ap,ap"]["population_reference"] == pytest.approx(share, abs=1e-6)
    assert [entry["name"] for entry in found.to_json()["torsion_pairs"]] == [name, "mean"]
