"""Distances, angles and dihedrals of many configurations at once, each with its gradient.

All tensors in this package's kernels have the layout ``(tiles, 3, atoms, lanes)``: a batch is cut into tiles,
and the configurations of a tile are adjacent in the last axis. So one instruction handles as many
configurations as a vector register holds, an atom's row is found by an offset and never by a gather, and a
tile stays in the L1 cache.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

Positions = Float[Tensor, "tiles 3 atoms lanes"]
Scalars = Float[Tensor, "tiles *terms lanes"]

# Lower bounds of squared lengths, areas and their products. They are far below the values in any molecule, far
# above float32's smallest number, and keep a gradient finite (mostly zero) where a coordinate has none: at
# coincident atoms, straight angles and dihedrals with an undefined plane.
SMALLEST_SQUARED_LENGTH = 1e-12
SMALLEST_SQUARED_AREA = 1e-18


class Vector(NamedTuple):
    """Vectors as three tensors: an axis of length three would add a loop, and stacking a branch in every pass."""

    x: Scalars
    y: Scalars
    z: Scalars

    def minus(self, other: "Vector") -> "Vector":
        """Difference of two vectors."""
        return Vector(self.x - other.x, self.y - other.y, self.z - other.z)

    def plus(self, other: "Vector") -> "Vector":
        """Sum of two vectors."""
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def times(self, factor: Scalars | float) -> "Vector":
        """Product with a number."""
        return Vector(self.x * factor, self.y * factor, self.z * factor)

    def dot(self, other: "Vector") -> Scalars:
        """Inner product."""
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: "Vector") -> "Vector":
        """Cross product."""
        return Vector(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )


class Dihedral(NamedTuple):
    """A dihedral as a point on the unit circle, with its gradient.

    Attributes:
        cosine: cosine of the angle.
        sine: sine of the angle, with the IUPAC sign.
        gradients: derivative of the angle with respect to each of the four atoms, radian/nm.
    """

    cosine: Scalars
    sine: Scalars
    gradients: tuple[Vector, Vector, Vector, Vector]


class Coordinate(NamedTuple):
    """An internal coordinate (nm or radian) with its derivative with respect to each of its atoms."""

    value: Scalars
    gradients: tuple[Vector, ...]


def at(positions: Positions, atoms: Int[Tensor, " terms"]) -> Vector:
    """Positions of some atoms."""
    x, y, z = positions.unbind(1)
    return Vector(x[:, atoms], y[:, atoms], z[:, atoms])


def distance(positions: Positions, atoms: Int[Tensor, "terms 2"]) -> Coordinate:
    """Distance of two atoms in nm."""
    difference = at(positions, atoms[:, 0]).minus(at(positions, atoms[:, 1]))
    squared = difference.dot(difference)
    inverse = torch.rsqrt(squared.clamp_min(SMALLEST_SQUARED_LENGTH))
    return Coordinate(squared * inverse, (difference.times(inverse), difference.times(-inverse)))


def angle(positions: Positions, atoms: Int[Tensor, "terms 3"]) -> Coordinate:
    """Angle at the second of three atoms in radian.

    Uses atan2 of sine and cosine: arccos loses half of the digits near 0 and pi, and has an infinite slope
    there.
    """
    vertex = at(positions, atoms[:, 1])
    first = at(positions, atoms[:, 0]).minus(vertex)
    second = at(positions, atoms[:, 2]).minus(vertex)
    normal = first.cross(second)
    squared_area = normal.dot(normal)
    inverse_area = torch.rsqrt(squared_area.clamp_min(SMALLEST_SQUARED_AREA))
    value = torch.atan2(squared_area * inverse_area, first.dot(second))
    first_scale = inverse_area / first.dot(first).clamp_min(SMALLEST_SQUARED_LENGTH)
    second_scale = inverse_area / second.dot(second).clamp_min(SMALLEST_SQUARED_LENGTH)
    first_gradient = first.cross(normal).times(first_scale)
    second_gradient = normal.cross(second).times(second_scale)
    return Coordinate(value, (first_gradient, first_gradient.plus(second_gradient).times(-1.0), second_gradient))


def dihedral(positions: Positions, atoms: Int[Tensor, "terms 4"]) -> Dihedral:
    """Dihedral of four atoms; Blondel and Karplus (1996) for the gradient, which has no pole at 0 and pi."""
    one, two, three, four = (at(positions, atoms[:, k]) for k in range(4))
    first, axis, last = two.minus(one), three.minus(two), four.minus(three)
    left, right = first.cross(axis), axis.cross(last)
    squared_axis = axis.dot(axis).clamp_min(SMALLEST_SQUARED_LENGTH)
    inverse_axis = torch.rsqrt(squared_axis)
    axis_length = squared_axis * inverse_axis
    inverse_left = torch.rsqrt(left.dot(left).clamp_min(SMALLEST_SQUARED_AREA))
    inverse_right = torch.rsqrt(right.dot(right).clamp_min(SMALLEST_SQUARED_AREA))
    inverse_areas = inverse_left * inverse_right
    cosine = left.dot(right) * inverse_areas
    sine = axis_length * first.dot(right) * inverse_areas
    start = left.times(-axis_length * inverse_left * inverse_left)
    end = right.times(axis_length * inverse_right * inverse_right)
    inverse_squared_axis = inverse_axis * inverse_axis
    along_first = first.dot(axis) * inverse_squared_axis
    along_last = last.dot(axis) * inverse_squared_axis
    second = end.times(along_last).minus(start.times(1.0 + along_first))
    return Dihedral(cosine, sine, (start, second, start.plus(second).plus(end).times(-1.0), end))
