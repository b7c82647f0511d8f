"""Bonds, angles and torsions: energies and their derivatives with respect to the internal coordinate."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from boltzport.energies.tensors.geometry import Positions, Scalars, Vector, angle, dihedral, distance
from boltzport.energies.tensors.parameters import Angles, Bonds, FourierTorsions, Impropers


class Contribution(NamedTuple):
    """Contribution of the terms of one kind to a configuration.

    Attributes:
        energy: energy of every term in kJ/mol.
        atoms: for every slot, the atoms that its gradients act on.
        gradients: for every slot, the derivative of the energy with respect to these atoms in kJ/mol/nm.
    """

    energy: Scalars
    atoms: tuple[Int[Tensor, " terms"], ...]
    gradients: tuple[Vector, ...]


def chain(
    energy: Scalars, slope: Scalars, gradients: tuple[Vector, ...], atoms: Int[Tensor, "terms slots"]
) -> Contribution:
    """Chain rule: the slope in the internal coordinate times the coordinate's gradient."""
    return Contribution(energy, atoms.unbind(1), tuple(gradient.times(slope) for gradient in gradients))


def harmonic_bonds(positions: Positions, bonds: Bonds) -> Contribution:
    """``k/2 (r - r0)^2`` in kJ/mol."""
    length = distance(positions, bonds.atoms)
    stretch = length.value - bonds.length[:, None]
    slope = bonds.stiffness[:, None] * stretch
    return chain(0.5 * slope * stretch, slope, length.gradients, bonds.atoms)


def harmonic_angles(positions: Positions, angles: Angles) -> Contribution:
    """``k/2 (theta - theta0)^2`` in kJ/mol."""
    bend = angle(positions, angles.atoms)
    deviation = bend.value - angles.angle[:, None]
    slope = angles.stiffness[:, None] * deviation
    return chain(0.5 * slope * deviation, slope, bend.gradients, angles.atoms)


def fourier_torsions(positions: Positions, torsions: FourierTorsions) -> Contribution:
    """Fourier series of the dihedral in kJ/mol, without the constant.

    cos(n phi) and sin(n phi) follow from cos(phi) and sin(phi) by the addition theorem. The angle itself is never
    computed, so there is neither a branch cut nor a transcendental function.
    """
    phi = dihedral(positions, torsions.atoms)
    cosine, sine = phi.cosine, phi.sine
    energy = torch.zeros_like(cosine)
    slope = torch.zeros_like(cosine)
    for order in range(1, torsions.cosine.shape[1] + 1):
        a = torsions.cosine[:, order - 1, None]
        b = torsions.sine[:, order - 1, None]
        energy = energy + (a * cosine + b * sine)
        slope = slope + order * (b * cosine - a * sine)
        cosine, sine = (
            cosine * phi.cosine - sine * phi.sine,
            sine * phi.cosine + cosine * phi.sine,
        )
    return chain(energy, slope, phi.gradients, torsions.atoms)


def harmonic_impropers(positions: Positions, impropers: Impropers) -> Contribution:
    """``k (phi - phi0)^2`` in kJ/mol."""
    phi = dihedral(positions, impropers.atoms)
    deviation = torch.atan2(phi.sine, phi.cosine) - impropers.angle[:, None]
    if impropers.periodic:
        deviation = deviation - 2.0 * math.pi * torch.round(deviation / (2.0 * math.pi))
    slope = 2.0 * impropers.stiffness[:, None] * deviation
    return chain(0.5 * slope * deviation, slope, phi.gradients, impropers.atoms)
