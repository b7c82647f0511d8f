"""Laws of the map between internal and Cartesian coordinates, on random molecules."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from boltzport.core.errors import InputError
from boltzport.molecules import CoordinateMap, Kind, build_zmatrix, plain_topology
from laws import full_log_det, random_coordinates, shapes_differ_by, skew
from molecules import Graph, connected_graphs, molecule


def coordinate_map(graph: Graph) -> CoordinateMap:
    return CoordinateMap(build_zmatrix(graph.topology()))


@given(connected_graphs(), st.integers(0, 2**31))
def test_round_trip_from_positions(graph: Graph, seed: int) -> None:
    map_ = coordinate_map(graph)
    positions = torch.randn(
        3, len(graph.elements), 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    there = map_.to_internal(positions)
    back = map_.to_cartesian(there.coordinates)
    assert shapes_differ_by(positions, back.positions) < 1e-9
    torch.testing.assert_close(there.log_det, -back.log_det, rtol=0, atol=1e-9)


@given(connected_graphs(), st.integers(0, 2**31))
def test_round_trip_from_coordinates(graph: Graph, seed: int) -> None:
    map_ = coordinate_map(graph)
    coordinates = random_coordinates(map_, 3, seed=seed)
    again = map_.to_internal(map_.to_cartesian(coordinates).positions).coordinates
    difference = again - coordinates
    turns = torch.tensor([column.kind is Kind.TORSION for column in map_.columns])
    difference[:, turns] = torch.remainder(difference[:, turns] + math.pi, 2 * math.pi) - math.pi
    assert difference.abs().max() < 1e-9


@settings(max_examples=25)
@given(connected_graphs(largest=9), st.integers(0, 2**31))
def test_log_det_is_that_of_the_full_jacobian(graph: Graph, seed: int) -> None:
    map_ = coordinate_map(graph)
    coordinates = random_coordinates(map_, 1, seed=seed)
    assert full_log_det(map_, coordinates[0]) == pytest.approx(map_.to_cartesian(coordinates).log_det.item(), abs=1e-8)


def test_first_three_atoms_fix_the_frame() -> None:
    map_ = molecule("elil").coordinates
    positions = map_.to_cartesian(random_coordinates(map_, 5, seed=1)).positions
    root, second, third = (row.atom for row in molecule("elil").zmatrix.rows[:3])
    assert (positions[:, root] == 0).all()
    assert (positions[:, second, 1:] == 0).all()
    assert (positions[:, second, 0] > 0).all()
    assert (positions[:, third, 2] == 0).all()
    assert (positions[:, third, 1] >= 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-4, math.pi - 1e-4, math.pi - 1e-7, math.pi])
def test_no_nan_at_angles_near_zero_and_pi(angle: float, dtype: torch.dtype) -> None:
    map_ = molecule("alanine-dipeptide").coordinates
    coordinates = random_coordinates(map_, 4, seed=2).to(dtype)
    coordinates[:, [column.kind is Kind.ANGLE for column in map_.columns]] = angle
    coordinates.requires_grad_()
    there = map_.to_cartesian(coordinates)
    (there.positions.square().sum() + there.log_det.sum()).backward()
    assert torch.isfinite(there.positions).all()
    assert torch.isfinite(there.log_det).all()
    assert coordinates.grad is not None
    assert torch.isfinite(coordinates.grad).all()

    positions = there.positions.detach().requires_grad_()
    back = map_.to_internal(positions)
    (back.coordinates.sum() + back.log_det.sum()).backward()
    assert torch.isfinite(back.coordinates).all()
    assert torch.isfinite(back.log_det).all()
    assert positions.grad is not None
    assert torch.isfinite(positions.grad).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bond", [0.0, 1e-40, 1e-20, 1e-10])
def test_no_nan_at_bonds_near_zero(bond: float, dtype: torch.dtype) -> None:
    map_ = molecule("alanine-dipeptide").coordinates
    coordinates = random_coordinates(map_, 4, seed=2).to(dtype)
    coordinates[:, [column.kind is Kind.BOND for column in map_.columns]] = bond
    coordinates.requires_grad_()
    there = map_.to_cartesian(coordinates)
    (there.positions.sum() + there.log_det.sum()).backward()
    positions = there.positions.detach().requires_grad_()
    back = map_.to_internal(positions)
    (back.coordinates.sum() + back.log_det.sum()).backward()
    for tensor in (*there, *back, coordinates.grad, positions.grad):
        assert tensor is not None
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-5, 1e-3])
def test_log_det_keeps_its_digits_at_small_angles(angle: float, dtype: torch.dtype) -> None:
    map_ = CoordinateMap(build_zmatrix(plain_topology([8, 1, 1], [(0, 1), (0, 2)])))
    coordinates = torch.tensor([[0.1, 0.1, angle]], dtype=dtype)
    expected = 4 * math.log(0.1) + math.log(math.sin(angle))
    assert map_.to_cartesian(coordinates).log_det.item() == pytest.approx(expected, rel=1e-6)


def test_gradients_are_those_of_the_values() -> None:
    graph = Graph([6, 6, 8, 1, 1, 6, 1], {(0, 1), (1, 2), (0, 3), (0, 4), (1, 5), (2, 6)})
    map_ = coordinate_map(graph)
    coordinates = random_coordinates(map_, 2, seed=3).requires_grad_()
    torch.autograd.gradcheck(lambda z: tuple(map_.to_cartesian(z)), (coordinates,))
    positions = map_.to_cartesian(coordinates).positions.detach().requires_grad_()
    torch.autograd.gradcheck(lambda x: tuple(map_.to_internal(x)), (positions,))


@pytest.mark.parametrize("name", ["alanine-dipeptide", "elil-tetrapeptide"])
def test_float32_is_float64_rounded(name: str) -> None:
    map_ = molecule(name).coordinates
    coordinates = random_coordinates(map_, 100, seed=4)
    exact, rounded = map_.to_cartesian(coordinates), map_.to_cartesian(coordinates.float())
    assert rounded.positions.dtype == rounded.log_det.dtype == torch.float32
    torch.testing.assert_close(rounded.positions.double(), exact.positions, rtol=0, atol=1e-5)
    torch.testing.assert_close(rounded.log_det.double(), exact.log_det, rtol=1e-5, atol=1e-3)


def test_constrained_bonds_are_constants() -> None:
    tetra = molecule("alanine-tetrapeptide")
    free = CoordinateMap(tetra.zmatrix)
    coordinates = random_coordinates(tetra.coordinates, 10, seed=5)
    there = tetra.coordinates.to_cartesian(coordinates)
    assert free.dimension - tetra.coordinates.dimension == len(tetra.constrained) == 22
    for (first, second), length in tetra.constrained.items():
        lengths = (there.positions[:, first] - there.positions[:, second]).norm(dim=1)
        torch.testing.assert_close(lengths, torch.full_like(lengths, length), rtol=1e-12, atol=0)
    # The same molecules with every bond a coordinate: the same volume element.
    torch.testing.assert_close(free.to_internal(there.positions).log_det, -there.log_det)


def test_a_constraint_off_the_tree_is_refused_by_name() -> None:
    water = build_zmatrix(plain_topology([8, 1, 1], [(0, 1), (0, 2)]))
    with pytest.raises(InputError, match=r"constrains the distance MOL1.A1-MOL1.A2, which is not a bond"):
        CoordinateMap(water, constrained={(1, 2): 0.15})


def test_empty_batch() -> None:
    map_ = molecule("alanine-dipeptide").coordinates
    there = map_.to_cartesian(torch.zeros(0, 60))
    assert there.positions.shape == (0, 22, 3)
    assert map_.to_internal(there.positions).coordinates.shape == (0, 60)


def test_placement_does_not_depend_on_the_batch() -> None:
    map_ = molecule("alanine-hexapeptide").coordinates
    coordinates = random_coordinates(map_, 64, seed=6)
    whole = map_.to_cartesian(coordinates).positions
    alone = torch.cat([map_.to_cartesian(row[None]).positions for row in coordinates])
    torch.testing.assert_close(whole, alone, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_compiled_gives_the_same() -> None:
    """In a process of its own: the type checker of the test run does not go through the compiler."""
    script = """
import torch
from boltzport.molecules import Molecule
map_ = Molecule("alanine-dipeptide").coordinates
z = torch.rand(257, 60, dtype=torch.float64) * 0.5 + 0.5
forward, inverse = (torch.compile(f, fullgraph=True) for f in (map_.to_cartesian, map_.to_internal))
for f, g, x in ((map_.to_cartesian, forward, z), (map_.to_internal, inverse, map_.to_cartesian(z)[0])):
    for plain, fast in zip(f(x), g(x)):
        torch.testing.assert_close(fast, plain, rtol=1e-9, atol=1e-9)
print("same")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr


@pytest.mark.parametrize("shape", [(60,), (5, 59), (5, 22, 3)])
def test_wrong_shape_of_coordinates(shape: tuple[int, ...]) -> None:
    with pytest.raises((InputError, TypeError)):
        molecule("alanine-dipeptide").coordinates.to_cartesian(torch.zeros(shape))


def test_superposition_keeps_the_mirror_image_apart() -> None:
    positions = torch.randn(1, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    mirror = positions * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    turn = torch.linalg.matrix_exp(skew(torch.tensor([1.0, -0.3, 0.5], dtype=torch.float64)))
    assert shapes_differ_by(positions, mirror) > 0.1
    assert shapes_differ_by(positions, positions @ turn + 5) < 1e-12
