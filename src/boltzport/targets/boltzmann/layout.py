"""Layouts of a molecule's internal coordinates: the paper's, and one informed by the force field."""

import math
from collections.abc import Callable

import numpy as np
from torch import Tensor

from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.molecules import Column, Kind, Molecule
from boltzport.targets.boltzmann.stiffness import FLAT, PUCKER, stiffness, with_reference

PAPER_BOND = 0.07
"""Range of a bond in the paper, nm."""
PAPER_ANGLE = 0.5730 * math.pi
"""Range of an angle in the paper, radian; the paper gives it in units of pi."""
PAPER_WIDTH = 0.1
"""Width of the paper's base density, in units of the range."""

INFORMED_MARGIN = 1.3
"""Width of the informed base density, relative to the harmonic approximation."""
REACH = 8.0
"""Half the informed range of a bond or an angle, in widths."""


def paper_layout(molecule: Molecule) -> Layout:
    """The paper's scaling, base density and half ranges; every torsion is a circle, even if its range is halved."""
    return Layout(_paper_axis(column, value) for column, value in with_reference(molecule))


def informed_layout(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Layout:
    """Layout whose base density has the widths of the stiff coordinates in the force field.

    The widths are the square roots of the diagonal of `Stiffness.covariance`. Rotations are uniform.

    Args:
        molecule: Molecule with its reference structure.
        energy: Energy in kJ/mol of positions in nm, differentiable.
    """
    pairs = with_reference(molecule)
    indices, covariance = stiffness(molecule, energy)
    widths = dict(zip(indices, INFORMED_MARGIN * np.sqrt(np.diagonal(covariance)), strict=True))
    axes = []
    for i, (column, value) in enumerate(pairs):
        if i not in widths:
            axes.append(circle(column.lower, column.upper, period=2 * math.pi))
            continue
        width = widths[i]
        if column.circular and not column.sibling and abs(math.sin(value)) > FLAT:
            width = max(width, PUCKER)
        axes.append(_informed_axis(column, value, width))
    return Layout(axes)


def _paper_axis(column: Column, value: float) -> Axis:
    if column.kind is Kind.TORSION:
        return circle(column.lower, column.upper, period=2 * math.pi)
    length = PAPER_BOND if column.kind is Kind.BOND else PAPER_ANGLE
    lower, upper = max(value - length / 2, column.lower), min(value + length / 2, column.upper)
    return interval(lower, upper, centre=value, width=PAPER_WIDTH * length)


def _informed_axis(column: Column, value: float, width: float) -> Axis:
    if column.kind is Kind.TORSION:
        # A full turn, cut opposite to the reference, or the half that the chirality or the double bond allows.
        lower, upper = (value - math.pi, value + math.pi) if column.circular else (column.lower, column.upper)
        return interval(lower, upper, centre=value, width=width, period=2 * math.pi)
    lower, upper = max(value - REACH * width, column.lower), min(value + REACH * width, column.upper)
    return interval(max(lower, 0.5 * value) if column.kind is Kind.BOND else lower, upper, centre=value, width=width)
