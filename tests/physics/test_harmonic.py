"""Independent coordinates of stiff motions: a bijection with a known determinant, and what it is for."""

import math

import pytest
import torch

from boltzport.core.weights import effective_fraction
from boltzport.flows import CouplingConfig, CouplingFlow
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann import BoltzmannTarget, HarmonicMap, harmonic_space, informed_layout, open_energy

SYSTEMS = ["alanine-dipeptide", "ACE-PRO-NME", "ACE-GLY-NME"]


@pytest.fixture(scope="module", params=SYSTEMS)
def made(request):
    molecule = Molecule(request.param)
    with open_energy(molecule, compiled=False) as energy:
        yield molecule, energy, harmonic_space(molecule, energy.evaluate)


def points(space, n: int, *, seed: int) -> torch.Tensor:
    """Points of the base density, and others from the whole range of what turns."""
    generator = torch.Generator().manual_seed(seed)
    flow = CouplingFlow(space.layout, CouplingConfig(pairs=1, hidden=(4,)), generator=generator, compiled=False)
    with torch.no_grad():
        found = flow.double().sample(n, generator=generator)
    turning = space.map.turning
    found[: n // 2, turning] += 2 * math.pi * torch.rand(n // 2, len(turning), dtype=torch.float64, generator=generator)
    return found


def test_there_and_back(made) -> None:
    _, _, space = made
    x = points(space, 200, seed=1)
    internal = space.map.to_internal(x)
    difference = space.map.to_independent(internal) - x
    assert float(difference.abs().max()) < 1e-9
    # An internal torsion is given modulo a turn.
    turned = internal.clone()
    torsions = [i for i in space.map.local.tolist() if made[0].coordinates.columns[i].kind.value == "torsion"]
    turned[:, torsions] += 2 * math.pi
    assert float((space.map.to_independent(turned) - x).abs().max()) < 1e-9


def test_determinant(made) -> None:
    _, _, space = made
    for x in points(space, 4, seed=2):
        jacobian = torch.autograd.functional.jacobian(lambda c: space.map.to_internal(c[None])[0], x)
        assert float(torch.linalg.slogdet(jacobian).logabsdet) == pytest.approx(space.map.log_det, abs=1e-9)


def test_density_does_not_depend_on_the_coordinates(made) -> None:
    """log p + log volume changes by the determinant of the map, and by nothing else."""
    molecule, energy, space = made
    harmonic = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
    plain = BoltzmannTarget(molecule, energy.evaluate, informed_layout(molecule, energy.evaluate))
    x = points(space, 50, seed=3)[25:]
    first, second = harmonic.evaluate(x), plain.evaluate(harmonic.internal(x))
    torch.testing.assert_close(first.log_p, second.log_p)
    torch.testing.assert_close(first.log_volume, second.log_volume + space.map.log_det)
    torch.testing.assert_close(harmonic.from_internal(harmonic.internal(x)), x)


def test_outside_of_what_a_molecule_can_be_there_is_no_density(made) -> None:
    molecule, energy, space = made
    harmonic = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
    x = points(space, 4, seed=4)
    x[0, int(space.map.local[0])] = -1e3
    assert float(harmonic.evaluate(x).log_p[0]) == -math.inf
    assert harmonic.evaluate(x).log_p[2:].isfinite().all()


def test_saved_and_loaded(made, tmp_path) -> None:
    _, _, space = made
    space.map.save(tmp_path / "map.safetensors")
    loaded = HarmonicMap.load(tmp_path / "map.safetensors")
    x = points(space, 10, seed=5)
    assert torch.equal(loaded.to_internal(x), space.map.to_internal(x))


def test_stiff_motions_of_the_harmonic_molecule_are_independent() -> None:
    """The Hessian in independent coordinates is the unit matrix among the local ones, at the reference."""
    molecule = Molecule("alanine-dipeptide")
    with open_energy(molecule, compiled=False) as energy:
        space = harmonic_space(molecule, energy.evaluate)
        target = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
        internal = molecule.coordinates.to_internal(torch.from_numpy(molecule.positions)[None]).coordinates
        reference = space.map.to_independent(internal)
        local, step = space.map.local, 1e-3
        shifts = torch.zeros(len(local), reference.shape[1], dtype=torch.float64)
        shifts[range(len(local)), local] = step
        x = torch.cat([reference + shifts, reference - shifts]).requires_grad_()
        (slope,) = torch.autograd.grad(target.evaluate(x).log_p.sum(), x)
        ahead, behind = slope[:, local].chunk(2)
        hessian = -(ahead - behind) / (2 * step)
        torch.testing.assert_close(hessian, torch.eye(len(local), dtype=torch.float64), atol=0.02, rtol=0)


def test_the_base_density_is_far_better_than_separate_widths() -> None:
    molecule = Molecule("alanine-dipeptide")
    metrics = []
    with open_energy(molecule, compiled=False) as energy, torch.no_grad():
        space = harmonic_space(molecule, energy.evaluate)
        for layout, map_ in ((space.layout, space.map), (informed_layout(molecule, energy.evaluate), None)):
            target = BoltzmannTarget(molecule, energy.evaluate, layout, map_)
            config = CouplingConfig(pairs=1, hidden=(4,))
            flow = CouplingFlow(layout, config, generator=torch.Generator().manual_seed(0), compiled=False)
            x, log_q = flow.sample_and_log_prob(4000, generator=torch.Generator().manual_seed(1))
            log_p, log_volume = target.evaluate(x)
            metrics.append(effective_fraction((log_p + log_volume - log_q)[log_p.isfinite()]))
    assert metrics[0] > 5 * metrics[1]
    assert metrics[0] > 0.003
