"""What the molecular flow makes of a molecule's coordinates: what turns keeps the whole turn, the rest is stiff."""

import math

import pytest
import torch

from boltzport.flows import MolecularConfig, MolecularFlow
from boltzport.molecules import Kind, Molecule
from boltzport.targets.boltzmann import BoltzmannTarget, harmonic_space, open_energy

TINY = MolecularConfig(torsion_hidden=(4,), hidden=(4,), pairs=1)


@pytest.fixture(scope="module", params=["ACE-PRO-NME", "ACE-ALA-ALA-NME"])
def made(request):
    molecule = Molecule(request.param)
    with open_energy(molecule, compiled=False) as energy:
        space = harmonic_space(molecule, energy.evaluate)
        target = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
        flow = MolecularFlow(space.layout, TINY, generator=torch.Generator().manual_seed(0), compiled=False).double()
        yield molecule, target, flow


def test_every_omega_and_whatever_rotates_is_a_torsion_of_the_flow(made) -> None:
    molecule, _, flow = made
    columns = molecule.coordinates.columns
    turning = {columns[i].name for i in flow.torsions.tolist()}
    omegas = {column.name for column in columns if column.name.endswith(".omega")}
    assert omegas
    assert omegas <= turning
    for i in flow.stiff.tolist():
        assert columns[i].kind is not Kind.TORSION or columns[i].sibling or columns[i].sign != 0


def test_backbone_comes_before_methyl_rotors(made) -> None:
    molecule, _, flow = made
    names = [molecule.coordinates.columns[i].name for i in flow.torsions.tolist()]
    backbone = [name.endswith((".phi", ".psi", ".omega")) for name in names]
    assert backbone == sorted(backbone, reverse=True)
    assert 0 < sum(backbone) < len(names)


def test_a_new_flow_has_cis_amides_that_exist(made) -> None:
    """Both sides of each omega are drawn, and the molecule has finite energies there that are no clash of the amide."""
    molecule, target, flow = made
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        points = flow.sample(4000, generator=generator)
        log_p = target.evaluate(points).log_p
    for i in flow.torsions.tolist():
        if not molecule.coordinates.columns[i].name.endswith(".omega"):
            continue
        cis = target.internal(points)[:, i].cos() > math.cos(math.radians(60))
        assert 0.005 < float(cis.double().mean()) < 0.06
        assert float(log_p[cis].max()) > float(log_p[~cis].median())


def test_siblings_of_flat_centres_are_stiff_and_stay_within_half_a_turn(made) -> None:
    """The hydrogen of an amide is placed at half a turn from its sibling: no deviation from there is cut off."""
    molecule, target, flow = made
    columns = molecule.coordinates.columns
    flat = [i for i in flow.stiff.tolist() if columns[i].sibling and columns[i].sign == 0]
    assert flat
    with torch.no_grad():
        points = flow.sample(500, generator=torch.Generator().manual_seed(2))
    internal = target.internal(points)[:, flat]
    beyond = (internal.abs() > math.pi).any(1)
    assert bool(beyond.any()), "some lie across the seam"
    assert bool(target.evaluate(points).log_p[beyond].isfinite().any())
    turned = target.from_internal(target.internal(points) - 2 * math.pi * torch.eye(len(columns))[flat].sum(0).double())
    assert float((turned - points).abs().max()) < 1e-8
