"""The layout of a space: all that a flow knows about the coordinates it models."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from boltzport.core.errors import InputError
from boltzport.core.skeleton import Skeleton


class Shape(StrEnum):
    """Topology of one coordinate."""

    INTERVAL = "interval"
    CIRCLE = "circle"


class LayoutKind(StrEnum):
    """Coordinates and base density of a target: harmonic, informed and paper for a molecule; a toy has its own."""

    HARMONIC = "harmonic"
    INFORMED = "informed"
    PAPER = "paper"
    OWN = "own"


class Axis(NamedTuple):
    """One coordinate.

    Attributes:
        shape: Interval or circle.
        lower: Lower end of the range, in the unit of the coordinate (nm or radian for a molecule).
        upper: Upper end of the range; on a circle it is the same point as the lower end.
        centre: Mode of the base density.
        width: Standard deviation of the base density, a normal truncated at the ends of the range; infinite for a
            uniform base density.
        period: Period of the coordinate: 2 pi for a torsion, infinite for a bond. It may be longer than the range, if
            part of the circle is not allowed.
        order: Order of the coordinate in an autoregressive flow; lower comes first.
    """

    shape: Shape
    lower: float
    upper: float
    centre: float
    width: float
    period: float = math.inf
    order: float = 0.0

    @property
    def whole_turn(self) -> bool:
        """Whether the two ends of the range are the same point."""
        return self.shape is Shape.CIRCLE or bool(self.period <= (self.upper - self.lower) * (1.0 + 1e-12))


class Layout(tuple[Axis, ...]):
    """The coordinates of a space, in order; checked when it is created.

    Args:
        axes: The coordinates.
        skeleton: How the torsions of a molecule place its atoms, if known.
    """

    skeleton: Skeleton | None

    def __new__(cls, axes: Iterable[Axis], *, skeleton: Skeleton | None = None) -> "Layout":
        """Check the coordinates.

        Raises:
            InputError: A range is empty or infinite, a width is not positive, or a circle is not uniform.
        """
        layout = super().__new__(cls, axes)
        layout.skeleton = skeleton
        for number, axis in enumerate(layout):
            where = f"axis {number} of the layout"
            if not (math.isfinite(axis.lower) and math.isfinite(axis.upper) and axis.lower < axis.upper):
                raise InputError(f"{where}: expected finite lower < upper, got {axis.lower} and {axis.upper}")
            if not (axis.width > 0.0 and math.isfinite(axis.centre)):
                raise InputError(f"{where}: expected width > 0 and finite centre, got {axis.width} and {axis.centre}")
            if axis.period < (axis.upper - axis.lower) * (1.0 - 1e-12):
                raise InputError(f"{where}: expected a period no shorter than the range, got {axis.period}")
            if axis.shape is Shape.CIRCLE and math.isfinite(axis.width):
                raise InputError(f"{where}: a circle's base density is uniform; expected width inf, got {axis.width}")
        return layout

    def to_json(self) -> list[list[object]]:
        """The axes as plain lists, with null for infinite numbers."""
        return [[axis.shape.value, *(value if math.isfinite(value) else None for value in axis[1:])] for axis in self]

    @classmethod
    def from_json(cls, rows: Iterable[Iterable[object]], *, skeleton: Skeleton | None = None) -> "Layout":
        """Layout from the output of `to_json`, with a skeleton."""
        axes = []
        for row in rows:
            shape, *numbers = row
            values = (math.inf if number is None else float(str(number)) for number in numbers)
            axes.append(Axis(Shape(str(shape)), *values))
        return cls(axes, skeleton=skeleton)


def circle(lower: float = -math.pi, upper: float = math.pi, *, period: float | None = None) -> Axis:
    """A circle with a uniform base density; its period is its range by default."""
    turn = upper - lower if period is None else period
    return Axis(Shape.CIRCLE, lower, upper, 0.5 * (lower + upper), math.inf, turn)


def interval(
    lower: float, upper: float, *, centre: float | None = None, width: float = math.inf, period: float = math.inf
) -> Axis:
    """An interval with a uniform base density, or a normal one truncated at its ends."""
    return Axis(Shape.INTERVAL, lower, upper, 0.5 * (lower + upper) if centre is None else centre, width, period)
