"""Distances, angles and dihedrals of many configurations at once, each with its gradient.

Everything in this package's kernels has the layout ``(tiles, 3, atoms, lanes)``: a batch is cut into tiles,
and the configurations of a tile lie side by side in the last axis. So one instruction serves as many
configurations as the machine's vectors hold, an atom's row is found by an offset and never by a gather, and
a tile stays in the nearest cache.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Positions = Float[Tensor, "tiles 3 atoms lanes"]
Vectors = Float[Tensor, "tiles 3 *terms lanes"]
Scalars = Float[Tensor, "tiles *terms lanes"]

# Floors under squared lengths, areas and their products. They are far below anything that a molecule
# reaches, far above float32's smallest number, and keep a gradient finite (mostly zero) where a coordinate
# has none: at coincident atoms, straight angles and dihedrals whose plane is lost.
SMALLEST_SQUARED_LENGTH = 1e-12
SMALLEST_SQUARED_AREA = 1e-18


class Dihedral(NamedTuple):
    """A dihedral as a point on the unit circle, with its gradient.

    Attributes:
        cosine: of the angle.
        sine: of the angle, with IUPAC's sign.
        gradients: derivative of the angle with respect to each of the four atoms, radian/nm.
    """

    cosine: Scalars
    sine: Scalars
    gradients: tuple[Vectors, Vectors, Vectors, Vectors]


class Coordinate(NamedTuple):
    """An internal coordinate (nm or radian) with its derivative with respect to each of its atoms."""

    value: Scalars
    gradients: tuple[Vectors, ...]


def dot(first: Vectors, second: Vectors) -> Scalars:
    """Inner product over the axis of x, y and z."""
    # Written out: a sum over an axis of three would be a reduction loop for the compiler.
    return first[:, 0] * second[:, 0] + first[:, 1] * second[:, 1] + first[:, 2] * second[:, 2]


def cross(first: Vectors, second: Vectors) -> Vectors:
    """Vector product over the axis of x, y and z."""
    x, y, z = first.unbind(1)
    u, v, w = second.unbind(1)
    return torch.stack([y * w - z * v, z * u - x * w, x * v - y * u], dim=1)


def distance(positions: Positions, atoms: Int[Tensor, "terms 2"]) -> Coordinate:
    """Distance of two atoms in nm."""
    difference = positions[:, :, atoms[:, 0]] - positions[:, :, atoms[:, 1]]
    squared = dot(difference, difference)
    inverse = torch.rsqrt(squared.clamp_min(SMALLEST_SQUARED_LENGTH))
    direction = difference * inverse[:, None]
    return Coordinate(squared * inverse, (direction, -direction))


def angle(positions: Positions, atoms: Int[Tensor, "terms 3"]) -> Coordinate:
    """Angle at the second of three atoms in radian.

    By atan2 of sine and cosine: arccos loses half of the digits near straight and folded angles and has an
    infinite slope there.
    """
    vertex = positions[:, :, atoms[:, 1]]
    first = positions[:, :, atoms[:, 0]] - vertex
    second = positions[:, :, atoms[:, 2]] - vertex
    normal = cross(first, second)
    squared_area = dot(normal, normal)
    inverse_area = torch.rsqrt(squared_area.clamp_min(SMALLEST_SQUARED_AREA))
    value = torch.atan2(squared_area * inverse_area, dot(first, second))
    first_scale = inverse_area / dot(first, first).clamp_min(SMALLEST_SQUARED_LENGTH)
    second_scale = inverse_area / dot(second, second).clamp_min(SMALLEST_SQUARED_LENGTH)
    first_gradient = cross(first, normal) * first_scale[:, None]
    second_gradient = cross(normal, second) * second_scale[:, None]
    return Coordinate(value, (first_gradient, -(first_gradient + second_gradient), second_gradient))


def dihedral(positions: Positions, atoms: Int[Tensor, "terms 4"]) -> Dihedral:
    """Dihedral of four atoms; Blondel and Karplus (1996) for the gradient, which has no pole at 0 and pi."""
    one, two, three, four = (positions[:, :, atoms[:, k]] for k in range(4))
    first, axis, last = two - one, three - two, four - three
    left, right = cross(first, axis), cross(axis, last)
    squared_axis = dot(axis, axis).clamp_min(SMALLEST_SQUARED_LENGTH)
    inverse_axis = torch.rsqrt(squared_axis)
    axis_length = squared_axis * inverse_axis
    squared_left = dot(left, left).clamp_min(SMALLEST_SQUARED_AREA)
    squared_right = dot(right, right).clamp_min(SMALLEST_SQUARED_AREA)
    inverse_areas = torch.rsqrt(squared_left) * torch.rsqrt(squared_right)
    cosine = dot(left, right) * inverse_areas
    sine = axis_length * dot(first, right) * inverse_areas
    start = left * (-axis_length / squared_left)[:, None]
    end = right * (axis_length / squared_right)[:, None]
    inverse_squared_axis = inverse_axis * inverse_axis
    along_first = (dot(first, axis) * inverse_squared_axis)[:, None]
    along_last = (dot(last, axis) * inverse_squared_axis)[:, None]
    second = along_last * end - (1.0 + along_first) * start
    return Dihedral(cosine, sine, (start, second, -(start + second + end), end))
