"""The force field as data: one record of float64 tensors for every kind of term.

Units are nm, kJ/mol, radian and elementary charge throughout. A record without terms is allowed and costs
nothing.
"""

from dataclasses import dataclass
from enum import Enum

from jaxtyping import Float, Int
from torch import Tensor


class Term(Enum):
    """Kinds of energy terms; the value is the name used in messages."""

    BONDS = "harmonic bonds"
    ANGLES = "harmonic angles"
    TORSIONS = "periodic torsions"
    RB_TORSIONS = "Ryckaert-Bellemans torsions"
    IMPROPERS = "harmonic impropers"
    CMAP = "CMAP"
    NONBONDED = "Lennard-Jones and Coulomb"
    BORN = "generalized Born"


@dataclass(frozen=True, kw_only=True)
class Bonds:
    """Harmonic bonds and Urey-Bradley terms, ``stiffness / 2 (r - length)^2``.

    Attributes:
        atoms: the two ends of every bond.
        length: equilibrium length in nm.
        stiffness: force constant in kJ/mol/nm^2.
    """

    atoms: Int[Tensor, "bonds 2"]
    length: Float[Tensor, " bonds"]
    stiffness: Float[Tensor, " bonds"]


@dataclass(frozen=True, kw_only=True)
class Angles:
    """Harmonic angles, ``stiffness / 2 (theta - angle)^2``.

    Attributes:
        atoms: end, vertex, end.
        angle: equilibrium angle in radian.
        stiffness: force constant in kJ/mol/radian^2.
    """

    atoms: Int[Tensor, "angles 3"]
    angle: Float[Tensor, " angles"]
    stiffness: Float[Tensor, " angles"]


@dataclass(frozen=True, kw_only=True)
class FourierTorsions:
    """Torsions as Fourier series, ``constant + sum_n cosine_n cos(n phi) + sine_n sin(n phi)``, n = 1, 2, ...

    Periodic and Ryckaert-Bellemans torsions both have this form; all terms over the same four atoms form one
    series.

    Attributes:
        atoms: the four atoms of every dihedral.
        cosine: amplitudes in kJ/mol.
        sine: amplitudes in kJ/mol.
        constant: constant term, summed over all torsions, in kJ/mol.
    """

    atoms: Int[Tensor, "torsions 4"]
    cosine: Float[Tensor, "torsions orders"]
    sine: Float[Tensor, "torsions orders"]
    constant: float


@dataclass(frozen=True, kw_only=True)
class Impropers:
    """Harmonic improper torsions, ``stiffness (phi - angle)^2`` with phi in (-pi, pi].

    Attributes:
        atoms: the four atoms of every dihedral.
        angle: equilibrium angle in radian.
        stiffness: force constant in kJ/mol/radian^2, without a factor 1/2, as in CHARMM.
        periodic: whether the difference is periodic; in OpenMM's ``charmm36.xml`` it is not.
    """

    atoms: Int[Tensor, "impropers 4"]
    angle: Float[Tensor, " impropers"]
    stiffness: Float[Tensor, " impropers"]
    periodic: bool


@dataclass(frozen=True, kw_only=True)
class CMAP:
    """Two-dimensional torsion maps, one periodic bicubic patch for every cell of the grid.

    Attributes:
        first: the four atoms of the first dihedral.
        second: the four atoms of the second dihedral.
        table: row of ``coefficients`` at which the term's map starts.
        size: number of cells along each axis of the term's map.
        coefficients: for every cell of every map (first angle slowest), the coefficients of s^i t^j in kJ/mol,
            s and t in [0, 1] inside the cell.
    """

    first: Int[Tensor, "maps 4"]
    second: Int[Tensor, "maps 4"]
    table: Int[Tensor, " maps"]
    size: Int[Tensor, " maps"]
    coefficients: Float[Tensor, "cells 4 4"]


@dataclass(frozen=True, kw_only=True)
class Nonbonded:
    """Lennard-Jones and Coulomb without cutoff, ``c12 / r^12 - c6 / r^6 + coulomb / r`` over pairs.

    Excluded pairs are absent; exceptions (1-4 scaling, NBFIX) are included in the parameters.

    Attributes:
        atoms: the pairs, first atom below second.
        coulomb: product of charges times the Coulomb constant, kJ/mol nm.
        c6: attraction coefficient in kJ/mol nm^6.
        c12: repulsion coefficient in kJ/mol nm^12.
    """

    atoms: Int[Tensor, "pairs 2"]
    coulomb: Float[Tensor, " pairs"]
    c6: Float[Tensor, " pairs"]
    c12: Float[Tensor, " pairs"]


@dataclass(frozen=True, kw_only=True)
class Neck:
    """The neck correction of GBn and GBn2 to the descreening of atom i (row) by atom j (column).

    Attributes:
        distance: position of the neck integral's maximum in nm.
        height: maximum of the neck integral, including the model's scale, in 1/nm.
        cutoff: separation in nm beyond which there is no neck.
    """

    distance: Float[Tensor, "atoms atoms"]
    height: Float[Tensor, "atoms atoms"]
    cutoff: Float[Tensor, "atoms atoms"]


@dataclass(frozen=True, kw_only=True)
class Born:
    """Generalized Born with the surface-area term of Schaefer (ACE).

    The effective radius B follows from the descreening integral I by ``1/B = 1/o - tanh(a psi - b psi^2 + c
    psi^3)/R``, psi = I o (Onufriev, Bashford, Case 2004), or by ``1/B = 1/o - I`` (Hawkins, Cramer, Truhlar
    1995).

    Attributes:
        charge: charge in elementary charges.
        offset_radius: o in nm.
        scaled_radius: o times the screening factor, nm; negative for sulfur in GBn2.
        radius: R in nm.
        rescaling: a, b and c of every atom; ``None`` for the HCT formula.
        neck: neck correction of GBn and GBn2, if any.
        engulfed: whether to correct for an atom inside another, as OpenMM's ``GBSAOBCForce`` does.
        coulomb: Coulomb constant of this term, kJ/mol nm.
        solute_dielectric: relative permittivity of the solute.
        solvent_dielectric: relative permittivity of the solvent.
        kappa: inverse Debye length in 1/nm.
        surface: prefactor of ``(R'/B)^6`` in kJ/mol; zero for no surface term.
        surface_radius: R' in nm.
    """

    charge: Float[Tensor, " atoms"]
    offset_radius: Float[Tensor, " atoms"]
    scaled_radius: Float[Tensor, " atoms"]
    radius: Float[Tensor, " atoms"]
    rescaling: Float[Tensor, "3 atoms"] | None
    neck: Neck | None
    engulfed: bool
    coulomb: float
    solute_dielectric: float
    solvent_dielectric: float
    kappa: float
    surface: Float[Tensor, " atoms"]
    surface_radius: Float[Tensor, " atoms"]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All terms of a force field for ``atoms`` atoms; ``None`` where a kind of term is absent."""

    atoms: int
    bonds: Bonds | None = None
    angles: Angles | None = None
    torsions: FourierTorsions | None = None
    rb_torsions: FourierTorsions | None = None
    impropers: Impropers | None = None
    cmap: CMAP | None = None
    nonbonded: Nonbonded | None = None
    born: Born | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """Kinds of terms that are present, in the order of ``Term``."""
        return tuple(term for term in Term if getattr(self, term.name.lower()) is not None)
