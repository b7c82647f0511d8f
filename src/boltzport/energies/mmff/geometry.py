"""Distances, angles and dihedrals of many configurations at once; torch differentiates them.

Positions are (3, atoms, batch): the configurations come last, so that every operation runs over contiguous memory.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

Positions = Float[Tensor, "3 atoms batch"]
Vectors = Float[Tensor, "3 terms batch"]
Values = Float[Tensor, "terms batch"]

# Far below any value in a molecule, and far above the smallest float32: gradients stay finite where two atoms coincide,
# an angle is straight or a dihedral has no plane.
_SQUARED_LENGTH = 1e-12
_SQUARED_AREA = 1e-18


def difference(positions: Positions, atoms: Int[Tensor, "terms members"], start: int, end: int) -> Vectors:
    """Vectors in nm from one member of each term to another."""
    return positions.index_select(1, atoms[:, end]) - positions.index_select(1, atoms[:, start])


def dot(one: Vectors, other: Vectors) -> Values:
    """Inner products."""
    return (one * other).sum(0)


def cross(one: Vectors, other: Vectors) -> Vectors:
    """Cross products."""
    normal: Tensor = torch.linalg.cross(one, other, dim=0)
    return normal


def length(vectors: Vectors) -> Values:
    """Lengths in nm."""
    return dot(vectors, vectors).clamp_min(_SQUARED_LENGTH).sqrt()


def angle(one: Vectors, other: Vectors) -> Values:
    """Angles in radian; by atan2, since arccos loses half of the digits near 0 and pi."""
    normal = cross(one, other)
    return torch.atan2(dot(normal, normal).clamp_min(_SQUARED_AREA).sqrt(), dot(one, other))


def cosine(one: Vectors, other: Vectors) -> Values:
    """Cosines of the angles."""
    return dot(one, other) / (length(one) * length(other))


def dihedral_cosine(first: Vectors, axis: Vectors, last: Vectors) -> Values:
    """Cosines of the dihedrals of three successive bonds."""
    left, right = cross(first, axis), cross(axis, last)
    areas = dot(left, left).clamp_min(_SQUARED_AREA) * dot(right, right).clamp_min(_SQUARED_AREA)
    return dot(left, right) * areas.rsqrt()


def elevation(one: Vectors, other: Vectors, raised: Vectors) -> Values:
    """Wilson angles in radian between a vector and the plane of two others."""
    normal = cross(one, other)
    height = dot(normal, raised)
    # What remains of the raised vector in the plane: by atan2, the angle is smooth up to a right angle.
    shadow = cross(normal, raised)
    return torch.atan2(height, dot(shadow, shadow).clamp_min(_SQUARED_AREA * _SQUARED_AREA).sqrt())
