"""CMAP: a periodic map of two dihedrals, interpolated as OpenMM does it."""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.energies.tensors.bonded import Contribution
from boltzport.energies.tensors.geometry import Positions, Scalars, dihedral
from boltzport.energies.tensors.parameters import CMAP

# Maps values and slopes at the two ends of a cell to the coefficients of 1, s, s^2, s^3.
_HERMITE = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [-3, 3, -2, -1], [2, -2, 1, 1]])


def periodic_spline_slopes(values: Float[np.ndarray, "knots columns"]) -> Float[np.ndarray, "knots columns"]:
    """Slopes at the knots, per knot spacing, of the periodic cubic spline through every column.

    Example:
        >>> knots = np.arange(24) * 2 * np.pi / 24
        >>> slopes = periodic_spline_slopes(np.sin(knots)[:, None])[:, 0] * 24 / (2 * np.pi)
        >>> bool(np.abs(slopes - np.cos(knots)).max() < 1e-4)
        True
    """
    count = len(values)
    system = 4.0 * np.eye(count)
    rows = np.arange(count)
    np.add.at(system, (rows, (rows + 1) % count), 1.0)
    np.add.at(system, (rows, (rows - 1) % count), 1.0)
    slopes: np.ndarray = np.linalg.solve(system, 3.0 * (np.roll(values, -1, axis=0) - np.roll(values, 1, axis=0)))
    return slopes


def bicubic_coefficients(grid: Float[np.ndarray, "size size"]) -> Float[np.ndarray, "size size 4 4"]:
    """Coefficients of s^i t^j in every cell of a periodic grid of energies (first angle along the rows)."""
    along_first = periodic_spline_slopes(grid)
    along_second = periodic_spline_slopes(grid.T).T
    mixed = periodic_spline_slopes(along_second)

    def ends(array: np.ndarray) -> np.ndarray:
        right = np.roll(array, -1, axis=0)
        corners = [[array, np.roll(array, -1, axis=1)], [right, np.roll(right, -1, axis=1)]]
        return np.stack([np.stack(row, axis=-1) for row in corners], axis=-2)

    hermite = np.block([[ends(grid), ends(along_second)], [ends(along_first), ends(mixed)]])
    coefficients: np.ndarray = _HERMITE @ hermite @ _HERMITE.T
    return coefficients


def _cell(angle: Scalars, size: Float[Tensor, "maps 1"]) -> tuple[Tensor, Tensor]:
    """Index of the cell along one axis and the position inside it."""
    scaled = torch.where(angle < 0.0, angle + 2.0 * math.pi, angle) * (size / (2.0 * math.pi))
    # A NaN becomes some integer; the clamp keeps it in the table, and the NaN position makes the energy NaN.
    cell = torch.minimum(scaled.detach().floor().clamp_min(0.0), size - 1.0)
    return cell, scaled - cell


def cmap_energy(positions: Positions, cmap: CMAP) -> Contribution:
    """Energy of every map in kJ/mol."""
    first = dihedral(positions, cmap.first)
    second = dihedral(positions, cmap.second)
    size = cmap.size[:, None]
    real_size = size.to(positions.dtype)
    row, s = _cell(torch.atan2(first.sine, first.cosine), real_size)
    column, t = _cell(torch.atan2(second.sine, second.cosine), real_size)
    cell = (cmap.table[:, None] + row.nan_to_num().long() * size + column.nan_to_num().long()).clamp_min(0)
    patch = cmap.coefficients[cell]
    energy, slope_s, slope_t = torch.zeros_like(s), torch.zeros_like(s), torch.zeros_like(s)
    for power in (3, 2, 1, 0):
        a, b, c, d = (patch[..., power, k] for k in range(4))
        slope_s = energy + slope_s * s
        energy = energy * s + (((d * t + c) * t + b) * t + a)
        slope_t = slope_t * s + ((3.0 * d * t + 2.0 * c) * t + b)
    per_radian = real_size / (2.0 * math.pi)
    gradients = tuple(gradient.times(slope_s * per_radian) for gradient in first.gradients)
    gradients += tuple(gradient.times(slope_t * per_radian) for gradient in second.gradients)
    return Contribution(energy, (*cmap.first.unbind(1), *cmap.second.unbind(1)), gradients)
