"""The skeleton of a molecule places its sites where the molecule has them, and flows that see them are densities."""

import pytest
import torch
from torch import Tensor

from boltzport.core.layout import Layout, LayoutKind
from boltzport.core.skeleton import FIXED, Skeleton
from boltzport.flows import MolecularConfig, MolecularFlow, load_flow
from boltzport.flows.molecular.geometry import Geometry
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann import build_space, open_energy
from molecular_flows import SKELETON
from molecules import molecule

SMALL = MolecularConfig(bins=4, harmonics=1, torsion_hidden=(8,), pairs=1, hidden=(8,), geometry=True)
NAMES = ["alanine-dipeptide", "ELIL", "ACE-PRO-GLY-NME", "ACE-TRP-NME"]


def layout_of(made: Molecule, kind: LayoutKind = LayoutKind.HARMONIC) -> Layout:
    with open_energy(made, compiled=False) as energy:
        return build_space(kind, made, energy.evaluate).layout


def flow_of(layout: Layout) -> MolecularFlow:
    flow = MolecularFlow(layout, SMALL, generator=torch.Generator().manual_seed(0), compiled=False).double()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return flow


def rigid(made: Molecule, flow: MolecularFlow, points: Tensor) -> Tensor:
    """Positions with the torsions of points, siblings and all else as in the reference structure."""
    reference = made.coordinates.to_internal(torch.from_numpy(made.positions)[None]).coordinates
    first = [i for i in flow.torsions.tolist() if not made.coordinates.columns[i].sibling]
    internal = reference.repeat(len(points), 1)
    internal[:, first] = points[:, first]
    return made.coordinates.to_cartesian(internal).positions


@pytest.mark.parametrize("kind", [LayoutKind.HARMONIC, LayoutKind.INFORMED])
@pytest.mark.parametrize("name", NAMES)
def test_distances_are_those_of_the_molecule(name: str, kind: LayoutKind) -> None:
    """Every distance between two sites is one between two atoms; a skeleton has its own numbering."""
    made = molecule(name)
    flow = flow_of(layout_of(made, kind))
    skeleton = flow.layout.skeleton
    assert skeleton is not None
    points = flow.sample(20, generator=torch.Generator().manual_seed(2)).detach()
    geometry = Geometry(skeleton, flow.torsions.tolist())
    placed = geometry.begin(points[:, 0])
    for k, angle in enumerate(points[:, flow.torsions].T):
        placed.turn(k, angle)
    here = placed.sites.permute(2, 1, 0)
    positions = rigid(made, flow, points)
    every = torch.cdist(positions, positions).flatten(1)
    found = torch.cdist(here, here).flatten(1)
    nearest = (found[:, :, None] - every[:, None, :]).abs().amin(2)
    assert nearest.max() < 1e-6
    assert found.std(0).max() > 0.05


def test_pairs_are_far_apart_and_their_distances_depend_on_torsions() -> None:
    made = molecule("ELIL")
    flow = flow_of(layout_of(made))
    skeleton = flow.layout.skeleton
    assert skeleton is not None
    assert len(skeleton.pairs) == len(set(skeleton.pairs)) > 100
    features = flow._features(torch.rand(len(flow.torsions), 200, dtype=torch.float64))
    assert (features[-len(skeleton.pairs) :].std(1) > 1e-6).all()


def test_distances_that_no_torsion_changes_are_no_features() -> None:
    """Nor does a molecule without torsions need any."""
    assert len(Geometry(SKELETON, [0, 3, 4, 5]).pairs) == len(SKELETON.pairs) - 1
    rigid_ring = SKELETON._replace(centres=tuple(centre._replace(coordinate=FIXED) for centre in SKELETON.centres))
    assert not len(Geometry(rigid_ring, []).pairs)


def test_a_torsion_sees_sites_in_its_own_frame() -> None:
    """Turning a former torsion moves what a network sees, turning a later one or the torsion itself does not."""
    flow = flow_of(layout_of(molecule("ELIL")))
    geometry = flow.torsion_half.geometry
    assert geometry is not None
    angles = 6.0 * torch.rand(len(flow.torsions), 5, dtype=torch.float64)
    before = seen(geometry, angles)
    assert sum(len(features) > 0 for features in before) > len(before) - 2
    for k in range(len(angles)):
        turned = angles.clone()
        turned[k] += 1.0
        after = seen(geometry, turned)
        for j in range(k + 1):
            torch.testing.assert_close(after[j], before[j], rtol=0, atol=0)
    assert any((a != b).any() for a, b in zip(seen(geometry, angles + 0.3), before, strict=True) if len(a))


def seen(geometry: Geometry, angles: Tensor) -> list[Tensor]:
    placed = geometry.begin(angles[0])
    found = []
    for k, angle in enumerate(angles):
        found.append(placed.features(k))
        placed.turn(k, angle)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_density_of_samples_is_the_same_both_ways(name: str) -> None:
    flow = flow_of(layout_of(molecule(name)))
    with torch.no_grad():
        points, log_q = flow.sample_and_log_prob(50, generator=torch.Generator().manual_seed(3))
        torch.testing.assert_close(flow.log_prob(points), log_q, rtol=0, atol=1e-8)


def test_a_skeleton_survives_its_file(tmp_path) -> None:
    layout = layout_of(molecule("ACE-PRO-GLY-NME"))
    assert layout.skeleton is not None
    assert Skeleton.from_json(layout.skeleton.to_json()) == layout.skeleton
    flow = flow_of(layout)
    flow.save(tmp_path / "flow.safetensors")
    loaded = load_flow(tmp_path / "flow.safetensors")
    assert loaded.layout.skeleton == layout.skeleton
    points = flow.sample(10, generator=torch.Generator().manual_seed(4)).detach()
    torch.testing.assert_close(loaded.log_prob(points), flow.log_prob(points))
