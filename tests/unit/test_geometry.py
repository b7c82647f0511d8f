import math

import mdtraj
import numpy as np
import pytest
import torch

from boltzport.molecules.geometry import angle, distance, torsion


def random_points(n: int) -> torch.Tensor:
    return torch.randn(n, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(n))


def test_agrees_with_mdtraj() -> None:
    points = random_points(50)
    topology = mdtraj.Topology()
    residue = topology.add_residue("X", topology.add_chain())
    for _ in range(4):
        topology.add_atom("C", mdtraj.element.carbon, residue)
    trajectory = mdtraj.Trajectory(points.numpy(), topology)
    a, b, c, d = points.permute(1, 2, 0)
    np.testing.assert_allclose(distance(a, b), mdtraj.compute_distances(trajectory, [[0, 1]])[:, 0], atol=1e-5)
    np.testing.assert_allclose(angle(a, b, c), mdtraj.compute_angles(trajectory, [[0, 1, 2]])[:, 0], atol=1e-4)
    np.testing.assert_allclose(
        torsion(a, b, c, d), mdtraj.compute_dihedrals(trajectory, [[0, 1, 2, 3]])[:, 0], atol=1e-4
    )


def test_torsion_is_clockwise_along_the_axis() -> None:
    # Looking along +z with x to the right, y points down: a quarter turn from x to y is clockwise.
    a, b, c, d = torch.tensor([[1.0, 0, 0], [0, 0, 0], [0, 0, 1.0], [0, 1.0, 1.0]], dtype=torch.float64)
    assert torsion(a, b, c, d) == pytest.approx(math.pi / 2)


@pytest.mark.parametrize("exponent", [-3, -6, -9, -12])
def test_small_angles_keep_their_digits(exponent: int) -> None:
    small = 10.0**exponent
    apex = torch.zeros(3, dtype=torch.float64)
    first = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    second = torch.tensor([math.cos(small), math.sin(small), 0.0], dtype=torch.float64)
    assert angle(first, apex, second) == pytest.approx(small, rel=1e-9)
    # pi - angle is a difference of rounded numbers of size pi.
    assert math.pi - angle(-first, apex, second) == pytest.approx(small, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("points", ["coincident", "collinear", "nearly collinear"])
def test_no_nan_where_a_torsion_is_undefined(points: str, dtype: torch.dtype) -> None:
    line = torch.tensor([[0.0, 0, 0], [0.1, 0, 0], [0.2, 0, 0], [0.3, 0, 0]], dtype=dtype)
    shifts = {"coincident": 0 * line - line, "collinear": 0 * line, "nearly collinear": 1e-7 * line.flip(1)}
    corners = (line + shifts[points]).requires_grad_()
    a, b, c, d = corners
    total = distance(a, b) + angle(a, b, c) + torsion(a, b, c, d)
    total.backward()
    assert torch.isfinite(total)
    assert corners.grad is not None
    assert torch.isfinite(corners.grad).all()
