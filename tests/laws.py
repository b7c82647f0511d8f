"""Laws that several tests check, written without the code under test."""

import torch
from torch import Tensor

from boltzport.molecules import CoordinateMap, Kind


def random_coordinates(map_: CoordinateMap, n: int, *, seed: int) -> Tensor:
    """Coordinates from the whole box: bonds of 0.08 to 0.2 nm, angles and torsions over their whole range."""
    uniform = torch.rand(n, map_.dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    lower = torch.tensor([0.08 if column.kind is Kind.BOND else column.lower for column in map_.columns])
    upper = torch.tensor([0.20 if column.kind is Kind.BOND else column.upper for column in map_.columns])
    # The middle 99.98 %: at an angle of exactly 0 or pi a torsion is not defined.
    return lower + (upper - lower) * (0.0001 + 0.9998 * uniform)


def full_log_det(map_: CoordinateMap, coordinates: Tensor) -> float:
    """Log of the determinant of the 3N x 3N Jacobian of (position, rotation, coordinates) -> positions."""

    def positions(external: Tensor, internal: Tensor) -> Tensor:
        # The rotation exp(skew(w)) at w = 0, where the Haar measure is dw.
        rotation = torch.linalg.matrix_exp(skew(external[3:]))
        return (map_.to_cartesian(internal[None]).positions[0] @ rotation.T + external[:3]).flatten()

    external = torch.zeros(6, dtype=coordinates.dtype)
    jacobian = torch.cat(torch.autograd.functional.jacobian(positions, (external, coordinates)), dim=1)
    assert jacobian.shape == (3 * map_.n_atoms, 3 * map_.n_atoms)
    return float(torch.linalg.slogdet(jacobian).logabsdet)


def shapes_differ_by(first: Tensor, second: Tensor) -> float:
    """Largest distance between atoms of molecules superposed by rotation and translation, never by reflection."""
    first, second = first - first.mean(1, keepdim=True), second - second.mean(1, keepdim=True)
    u, _, vh = torch.linalg.svd(first.mT @ second)
    flip = torch.ones(len(first), 3, dtype=first.dtype)
    flip[:, 2] = torch.linalg.det(u @ vh)
    return float((first @ (u * flip[:, None]) @ vh - second).norm(dim=-1).max())


def skew(w: Tensor) -> Tensor:
    zero = torch.zeros_like(w[0])
    return torch.stack([zero, -w[2], w[1], w[2], zero, -w[0], -w[1], w[0], zero]).reshape(3, 3)
