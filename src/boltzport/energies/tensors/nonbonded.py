"""Lennard-Jones and Coulomb over pairs of atoms."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.energies.tensors.geometry import Positions, Scalars, at
from boltzport.energies.tensors.parameters import Nonbonded

# The largest repulsion of a single pair, kJ/mol. Separations are clamped to the one where the hardest pair
# reaches it. It is above the paper's E_max (1e20 kT), so that nothing is lost, and so far below float32's
# largest number (3e38) that the slope over the separation (times 12 / r^2, about 1e7) and sums over many pairs
# stay finite: no inf appears, and so no inf - inf between Lennard-Jones, Coulomb and generalized Born.
HARDEST_REPULSION = 1e27
SMALLEST_SEPARATION = 1e-3


class PairTerm(NamedTuple):
    """Energy of each pair with its radial derivative.

    Attributes:
        energy: energy in kJ/mol.
        slope: derivative with respect to half the squared separation, ``(dE/dr) / r``, in kJ/mol/nm^2.
            Times the difference of the positions, it is the gradient.
    """

    energy: Scalars
    slope: Scalars


def smallest_separation(nonbonded: Nonbonded | None) -> float:
    """Separation in nm below which the energy of a pair is constant.

    Two coincident atoms have a large energy and no force; see ``HARDEST_REPULSION``.
    """
    if nonbonded is None or nonbonded.c12.numel() == 0:
        return SMALLEST_SEPARATION
    hardest = max(float(nonbonded.c12.max()), 0.0)
    return max(SMALLEST_SEPARATION, math.pow(hardest / HARDEST_REPULSION, 1.0 / 12.0))


def squared_separations(
    positions: Positions, atoms: Int[Tensor, "terms 2"], smallest: float
) -> Float[Tensor, "tiles terms lanes"]:
    """Squared separations of pairs of atoms in nm^2, none below the square of ``smallest``."""
    difference = at(positions, atoms[:, 0]).minus(at(positions, atoms[:, 1]))
    return difference.dot(difference).clamp_min(smallest * smallest)


def lennard_jones_coulomb(squared_separation: Scalars, nonbonded: Nonbonded) -> PairTerm:
    """``c12 / r^12 - c6 / r^6 + coulomb / r`` in kJ/mol."""
    # One reciprocal root is used for all powers; roots and quotients are the slowest instructions here.
    inverse = torch.rsqrt(squared_separation)
    inverse_squared = inverse * inverse
    inverse_sixth = inverse_squared * inverse_squared * inverse_squared
    repulsion = nonbonded.c12[:, None] * inverse_sixth * inverse_sixth
    dispersion = nonbonded.c6[:, None] * inverse_sixth
    coulomb = nonbonded.coulomb[:, None] * inverse
    return PairTerm(
        repulsion - dispersion + coulomb,
        (6.0 * dispersion - 12.0 * repulsion - coulomb) * inverse_squared,
    )
