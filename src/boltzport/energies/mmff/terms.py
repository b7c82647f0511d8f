"""The formulas of MMFF94, each a pure function of positions in nm, with energies in kJ/mol.

Halgren, J. Comput. Chem. 17, 490 (1996), equations 2 to 8. Lengths in the cubic and quartic terms and in the buffers
are converted from angstrom to nm, angles from degrees to radian.
"""

import math
from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

from boltzport.energies.mmff.geometry import angle, cosine, difference, dihedral_cosine, elevation, length
from boltzport.energies.mmff.parameters import MMFFTerm

CUBIC_STRETCH = -20.0
"""Cubic constant of bonds in 1/nm."""
CUBIC_BEND = -0.006981317 * math.degrees(1.0)
"""Cubic constant of angles in 1/radian."""
BUFFER = 0.005
"""Buffer of electrostatics in nm."""

Positions = Float[Tensor, "3 atoms batch"]
Constants = Float[Tensor, "constants terms 1"]
Energies = Float[Tensor, "terms batch"]


def stretch(positions: Positions, atoms: Int[Tensor, "terms 2"], constants: Constants) -> Energies:
    """Quartic bonds: half k d^2 (1 + c d + 7/12 c^2 d^2)."""
    k, r0 = constants.unbind()
    d = length(difference(positions, atoms, 0, 1)) - r0
    return 0.5 * k * d * d * (1.0 + CUBIC_STRETCH * d + 7.0 / 12.0 * CUBIC_STRETCH**2 * d * d)


def bend(positions: Positions, atoms: Int[Tensor, "terms 3"], constants: Constants) -> Energies:
    """Cubic angles: half k d^2 (1 + c d)."""
    k, theta0 = constants.unbind()
    d = angle(difference(positions, atoms, 1, 0), difference(positions, atoms, 1, 2)) - theta0
    return 0.5 * k * d * d * (1.0 + CUBIC_BEND * d)


def linear(positions: Positions, atoms: Int[Tensor, "terms 3"], constants: Constants) -> Energies:
    """Linear angles: k (1 + cos theta)."""
    (k,) = constants.unbind()
    return k * (1.0 + cosine(difference(positions, atoms, 1, 0), difference(positions, atoms, 1, 2)))


def stretch_bend(positions: Positions, atoms: Int[Tensor, "terms 3"], constants: Constants) -> Energies:
    """Coupling of an angle with its two bonds: (k d1 + k' d2) d_theta."""
    first, second, r1, r2, theta0 = constants.unbind()
    one, two = difference(positions, atoms, 1, 0), difference(positions, atoms, 1, 2)
    return (first * (length(one) - r1) + second * (length(two) - r2)) * (angle(one, two) - theta0)


def out_of_plane(positions: Positions, atoms: Int[Tensor, "terms 4"], constants: Constants) -> Energies:
    """Wilson angle of the fourth atom above the plane of the first three, whose second is the centre: half k chi^2."""
    (k,) = constants.unbind()
    one, two, raised = (difference(positions, atoms, 1, end) for end in (0, 2, 3))
    chi = elevation(one, two, raised)
    return 0.5 * k * chi * chi


def torsion(positions: Positions, atoms: Int[Tensor, "terms 4"], constants: Constants) -> Energies:
    """Threefold torsions: half of v1 (1 + cos phi) + v2 (1 - cos 2 phi) + v3 (1 + cos 3 phi)."""
    v1, v2, v3 = constants.unbind()
    c = dihedral_cosine(*(difference(positions, atoms, k, k + 1) for k in range(3)))
    return 0.5 * (v1 * (1.0 + c) + v2 * (2.0 - 2.0 * c * c) + v3 * (1.0 + c * (4.0 * c * c - 3.0)))


def van_der_waals(positions: Positions, atoms: Int[Tensor, "terms 2"], constants: Constants) -> Energies:
    """Buffered 14-7 potential of the distance over that of the minimum."""
    minimum, epsilon = constants.unbind()
    s = length(difference(positions, atoms, 0, 1)) / minimum
    inverse = 1.07 / (s + 0.07)
    return epsilon * _seventh(inverse) * (1.12 / (_seventh(s) + 0.12) - 2.0)


def electrostatics(positions: Positions, atoms: Int[Tensor, "terms 2"], constants: Constants) -> Energies:
    """Buffered Coulomb energy."""
    (product,) = constants.unbind()
    return product / (length(difference(positions, atoms, 0, 1)) + BUFFER)


def _seventh(value: Tensor) -> Tensor:
    squared = value * value
    return squared * squared * squared * value


FORMULAS: dict[MMFFTerm, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    MMFFTerm.STRETCH: stretch,
    MMFFTerm.BEND: bend,
    MMFFTerm.LINEAR: linear,
    MMFFTerm.STRETCH_BEND: stretch_bend,
    MMFFTerm.OUT_OF_PLANE: out_of_plane,
    MMFFTerm.TORSION: torsion,
    MMFFTerm.VAN_DER_WAALS: van_der_waals,
    MMFFTerm.ELECTROSTATICS: electrostatics,
}
"""Formula of each term."""
