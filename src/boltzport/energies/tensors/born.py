"""Generalized Born: descreening integrals, effective radii, energies, and their derivatives.

The energy is E(r, b(I(r))) with I the descreening integral of every atom and b = 1/B the inverse of its
effective radius. Its gradient needs three passes over the pairs: I and dI/dr; the energy with its
derivatives in r and b; and the chain rule through b. Hawkins, Cramer, Truhlar (1996); Onufriev, Bashford,
Case (2004); Mongan et al. (2007) for the neck; Nguyen, Roe, Simmerling (2013) for GBn2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.energies.tensors.geometry import Scalars
from boltzport.energies.tensors.nonbonded import PairTerm
from boltzport.energies.tensors.parameters import Born

# HCT's 1/B = 1/o - I passes through zero in clashes, where OpenMM's energy is meaningless or NaN. A radius
# above a micrometre is not physical, and below this floor the energy would not stay finite.
SMALLEST_INVERSE_RADIUS = 1e-3


class Descreening(NamedTuple):
    """Descreening of one atom by another.

    Attributes:
        integral: contribution to I, 1/nm.
        slope: its derivative with respect to half the squared separation, 1/nm^3.
    """

    integral: Float[Tensor, "..."]
    slope: Float[Tensor, "..."]


class Radii(NamedTuple):
    """Effective radius of every atom.

    Attributes:
        value: B in nm.
        inverse: 1/B in 1/nm.
        slope: derivative of the inverse with respect to the integral I.
    """

    value: Scalars
    inverse: Scalars
    slope: Scalars


class BornPairs(NamedTuple):
    """Screened interaction of every pair of atoms.

    Attributes:
        term: energy and radial derivative at constant radii.
        inverse_radius_slope: derivative of the energy with respect to the product of the inverse radii.
    """

    term: PairTerm
    inverse_radius_slope: Scalars


class BornSelf(NamedTuple):
    """Energy of every single atom: polarisation and surface.

    Attributes:
        energy: energy in kJ/mol.
        slope: derivative with respect to the inverse radius.
    """

    energy: Scalars
    slope: Scalars


def descreening(
    r: Float[Tensor, "..."],
    offset_radius: Float[Tensor, "..."],
    inverse_offset_radius: Float[Tensor, "..."],
    scaled_radius: Float[Tensor, "..."],
    *,
    engulfed: bool,
) -> Descreening:
    """Pairwise descreening integral of one atom by another.

    Args:
        r: separation in nm.
        offset_radius: offset radius of the descreened atom in nm.
        inverse_offset_radius: its inverse.
        scaled_radius: scaled radius of the other atom in nm.
        engulfed: whether to correct for an atom inside the other.
    """
    upper = r + scaled_radius
    gap = r - scaled_radius
    lower = torch.maximum(gap.abs(), offset_radius)
    # One quotient for three reciprocals: roots and quotients are the slowest instructions here.
    quotient = 1.0 / (r * lower * upper)
    inverse = lower * upper * quotient
    inverse_lower, inverse_upper = r * upper * quotient, r * lower * quotient
    squared_lower, squared_upper = inverse_lower * inverse_lower, inverse_upper * inverse_upper
    logarithm = torch.log(lower * inverse_upper) * inverse
    radius_over_r = scaled_radius * inverse
    spread = r - scaled_radius * radius_over_r
    difference = squared_upper - squared_lower
    integral = 0.5 * (inverse_lower - inverse_upper) + 0.125 * spread * difference + 0.25 * logarithm
    # d(lower)/dr is 1 outside the other atom, -1 inside it, and 0 where the atom's own radius is the bound.
    zero = torch.zeros_like(r)
    lower_slope = torch.where(gap.abs() > offset_radius, torch.where(gap > 0.0, zero + 1.0, zero - 1.0), zero)
    slope = (
        0.5 * (squared_upper - squared_lower * lower_slope)
        + 0.125 * (1.0 + radius_over_r * radius_over_r) * difference
        + 0.25 * spread * (squared_lower * inverse_lower * lower_slope - squared_upper * inverse_upper)
        + 0.25 * inverse * (inverse_lower * lower_slope - inverse_upper - logarithm)
    )
    if engulfed:
        inside = -gap > offset_radius
        integral = integral + torch.where(inside, inverse_offset_radius - inverse_lower, zero)
        slope = slope + torch.where(inside, squared_lower * lower_slope, zero)
    reached = upper >= offset_radius
    return Descreening(torch.where(reached, integral, zero), torch.where(reached, slope * inverse, zero))


def neck(
    r: Float[Tensor, "..."],
    distance: Float[Tensor, "..."],
    height: Float[Tensor, "..."],
    cutoff: Float[Tensor, "..."],
) -> Descreening:
    """The neck correction of GBn to the descreening integral at a separation in nm."""
    shift = r - distance
    squared = shift * shift
    fourth = squared * squared
    inverse = 1.0 / (1.0 + 100.0 * squared + 300000.0 * fourth * squared)
    zero = torch.zeros_like(shift)
    reached = r <= cutoff
    integral = height * inverse
    slope = -integral * inverse * shift * (200.0 + 1800000.0 * fourth) / r
    return Descreening(torch.where(reached, integral, zero), torch.where(reached, slope, zero))


def effective_radii(integral: Scalars, born: Born) -> Radii:
    """Effective radii from the descreening integrals."""
    offset_radius = born.offset_radius[:, None]
    if born.rescaling is None:
        inverse = 1.0 / offset_radius - integral
        positive = inverse > SMALLEST_INVERSE_RADIUS
        slope = torch.where(positive, -torch.ones_like(inverse), torch.zeros_like(inverse))
        inverse = inverse.clamp_min(SMALLEST_INVERSE_RADIUS)
        return Radii(1.0 / inverse, inverse, slope)
    a, b, c = (born.rescaling[k, :, None] for k in range(3))
    psi = integral * offset_radius
    tanh = torch.tanh(psi * (a - psi * (b - c * psi)))
    inverse = 1.0 / offset_radius - tanh / born.radius[:, None]
    inner = a - psi * (2.0 * b - 3.0 * c * psi)
    slope = (tanh * tanh - 1.0) * inner * (offset_radius / born.radius[:, None])
    return Radii(1.0 / inverse, inverse, slope)


def born_self(radii: Radii, born: Born) -> BornSelf:
    """Polarisation and surface energy of every atom in kJ/mol."""
    inverse_radius = radii.inverse
    squared_charge = (-0.5 * born.coulomb) * (born.charge * born.charge)[:, None]
    inside = 1.0 / born.solute_dielectric
    if born.kappa > 0.0:
        screened = torch.exp(-born.kappa * radii.value) / born.solvent_dielectric
        tau = inside - screened
        tau_slope = -screened * (born.kappa * radii.value)
        energy = squared_charge * tau * inverse_radius
        slope = squared_charge * (tau + tau_slope)
    else:
        scaled_charge = squared_charge * (inside - 1.0 / born.solvent_dielectric)
        energy = scaled_charge * inverse_radius
        slope = scaled_charge.expand_as(inverse_radius)
    ratio = born.surface_radius[:, None] * inverse_radius
    squared = ratio * ratio
    fifth = born.surface[:, None] * squared * squared * ratio
    return BornSelf(energy + fifth * ratio, slope + 6.0 * born.surface_radius[:, None] * fifth)


def born_pairs(
    squared_separation: Scalars,
    radii: Scalars,
    inverse_radii: Scalars,
    charges: Float[Tensor, "pairs 1"],
    born: Born,
) -> BornPairs:
    """Screened Coulomb interaction in kJ/mol.

    Args:
        squared_separation: squared separation in nm^2.
        radii: product of the two effective radii, nm^2.
        inverse_radii: product of their inverses.
        charges: product of the two charges, in squared elementary charges.
        born: the generalized Born model.
    """
    decay = torch.exp(-0.25 * squared_separation * inverse_radii)
    squared = squared_separation + radii * decay
    inverse = torch.rsqrt(squared)
    inside = 1.0 / born.solute_dielectric
    if born.kappa > 0.0:
        f = squared * inverse
        screened = torch.exp(-born.kappa * f) / born.solvent_dielectric
        scaled_charge = -born.coulomb * charges
        energy = scaled_charge * (inside - screened) * inverse
        # dE / d(f^2)
        slope = 0.5 * inverse * (scaled_charge * born.kappa * screened * inverse - energy * inverse)
    else:
        scaled_charge = (-born.coulomb * (inside - 1.0 / born.solvent_dielectric)) * charges
        energy = scaled_charge * inverse
        slope = -0.5 * energy * inverse * inverse
    return BornPairs(
        PairTerm(energy, slope * (2.0 - 0.5 * decay)),
        -slope * decay * radii * (0.25 * squared_separation + radii),
    )
