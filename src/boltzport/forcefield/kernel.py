"""The whole energy of tiles of configurations, and its gradient, as functions that a compiler can fuse.

The gradient is written out term by term and not left to autograd: gathers would become scattered additions,
which do not vectorise, and every pair's intermediate values would be kept.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.forcefield.bonded import (
    Contribution,
    fourier_torsions,
    harmonic_angles,
    harmonic_bonds,
    harmonic_impropers,
)
from boltzport.forcefield.born import Descreening, born_pairs, born_self, descreening, inverse_radii, neck
from boltzport.forcefield.cmap import cmap_energy
from boltzport.forcefield.geometry import Positions, Scalars, dot
from boltzport.forcefield.nonbonded import (
    Separation,
    lennard_jones_coulomb,
    separation,
    separations,
    smallest_separation,
)
from boltzport.forcefield.parameters import Born, Nonbonded, Parameters, Term
from boltzport.forcefield.tables import (
    BornTables,
    Direction,
    PairTables,
    born_tables,
    convert,
    pair_tables,
    slots_of,
    spread,
)

Energies = Float[Tensor, "tiles lanes"]

# No molecule is ten micrometres wide; beyond, products of four lengths would leave float32's range and give
# NaN. Whoever calls a kernel cuts the coordinates there.
LARGEST_COORDINATE = 1e4


class EnergyAndGradient(NamedTuple):
    """Energies in kJ/mol and their gradient in kJ/mol/nm."""

    energy: Energies
    gradient: Positions


class Kernel:
    """Energy and gradient of tiles of configurations, bound to parameters, a device and a precision."""

    def __init__(self, parameters: Parameters, device: torch.device, dtype: torch.dtype) -> None:
        self.parameters = convert(parameters, device, dtype)
        self.smallest = smallest_separation(parameters.nonbonded)
        series = (parameters.torsions, parameters.rb_torsions)
        self.constant = sum(torsions.constant for torsions in series if torsions is not None)
        self.pairs: PairTables | None = None
        self.born: BornTables | None = None
        if parameters.nonbonded is not None or parameters.born is not None:
            pairs = pair_tables(parameters.atoms, parameters.nonbonded)
            self.pairs = convert(pairs, device, dtype)
            if parameters.born is not None:
                self.born = convert(born_tables(parameters.born, pairs.nonbonded.atoms), device, dtype)
        bonded = self._bonded(torch.zeros(1, 3, parameters.atoms, 1, device=device, dtype=dtype))
        slots = [slot for part in bonded for slot in part.atoms]
        if slots:
            self.slots = spread(slots_of(parameters.atoms, torch.cat(slots).cpu()).to(device))

    def terms(self, positions: Positions) -> dict[Term, Energies]:
        """Energy of every kind of term in kJ/mol, in the order of ``Parameters.terms``."""
        p = self.parameters
        bonded = iter(self._bonded(positions))
        energies: dict[Term, Energies] = {}
        for term in p.terms:
            if term is Term.NONBONDED:
                assert p.nonbonded is not None
                energies[term] = self._nonbonded_energy(positions, p.nonbonded)
            elif term is Term.BORN:
                assert p.born is not None
                assert self.pairs is not None
                zero = torch.zeros_like(self.pairs.nonbonded.c6)
                silent = replace(self.pairs.nonbonded, coulomb=zero, c6=zero, c12=zero)
                energies[term] = self._solvated_energy(positions, p.born, silent)
            else:
                energies[term] = next(bonded).energy.sum(1)
        for term, series in ((Term.TORSIONS, p.torsions), (Term.RB_TORSIONS, p.rb_torsions)):
            if series is not None:
                energies[term] = energies[term] + series.constant
        return energies

    def energy(self, positions: Positions) -> Energies:
        """Total energy in kJ/mol."""
        p = self.parameters
        total = torch.full_like(positions[:, 0, 0], self.constant)
        for part in self._bonded(positions):
            total = total + part.energy.sum(1)
        if p.born is not None and self.pairs is not None:
            total = total + self._solvated_energy(positions, p.born, self.pairs.nonbonded)
        elif p.nonbonded is not None:
            total = total + self._nonbonded_energy(positions, p.nonbonded)
        return total

    def energy_and_gradient(self, positions: Positions) -> EnergyAndGradient:
        """Total energy in kJ/mol and its gradient in kJ/mol/nm."""
        total = torch.full_like(positions[:, 0, 0], self.constant)
        gradient = torch.zeros_like(positions)
        bonded = self._bonded(positions)
        for part in bonded:
            total = total + part.energy.sum(1)
        slots = [slot for part in bonded for slot in part.gradients]
        if slots:
            nothing = torch.zeros_like(positions[:, :, :1])
            gradient = torch.cat([*slots, nothing], dim=2)[:, :, self.slots].sum(3)
        if self.pairs is not None:
            pairs = self._pairs(positions, self.pairs)
            total, gradient = total + pairs.energy, gradient + pairs.gradient
        return EnergyAndGradient(total, gradient)

    def _bonded(self, positions: Positions) -> list[Contribution]:
        """The bonded terms that are present, in the order of ``Term``."""
        p = self.parameters
        parts = []
        if p.bonds is not None:
            parts.append(harmonic_bonds(positions, p.bonds))
        if p.angles is not None:
            parts.append(harmonic_angles(positions, p.angles))
        if p.torsions is not None:
            parts.append(fourier_torsions(positions, p.torsions))
        if p.rb_torsions is not None:
            parts.append(fourier_torsions(positions, p.rb_torsions))
        if p.impropers is not None:
            parts.append(harmonic_impropers(positions, p.impropers))
        if p.cmap is not None:
            parts.append(cmap_energy(positions, p.cmap))
        return parts

    def _nonbonded_energy(self, positions: Positions, nonbonded: Nonbonded) -> Energies:
        pair = separations(positions, nonbonded.atoms, self.smallest)
        return lennard_jones_coulomb(pair, nonbonded).energy.sum(1)

    def _solvated_energy(self, positions: Positions, born: Born, nonbonded: Nonbonded) -> Energies:
        """Generalized Born together with Lennard-Jones and Coulomb over all pairs."""
        assert self.born is not None
        inverse_radius = self._inverse_radii(positions, born, self.born)
        i, j = nonbonded.atoms.unbind(1)
        pair = separations(positions, nonbonded.atoms, self.smallest)
        product = inverse_radius[:, i] * inverse_radius[:, j]
        screened = born_pairs(pair, product, self.born.charges[:, None], born).term.energy
        bare = lennard_jones_coulomb(pair, nonbonded).energy
        return born_self(inverse_radius, born).energy.sum(1) + (bare + screened).sum(1)

    def _inverse_radii(self, positions: Positions, born: Born, tables: BornTables) -> Scalars:
        """Inverse Born radii, over ordered pairs: descreening has a direction, nothing is done twice."""
        difference = positions[:, :, :, None] - positions[:, :, None]
        pair = separation(dot(difference, difference), self.smallest)
        offset_radius, scaled_radius = born.offset_radius[:, None, None], born.scaled_radius[None, :, None]
        integral = descreening(pair, offset_radius, scaled_radius, engulfed=born.engulfed).integral
        if born.neck is not None:
            distance, height, cutoff = born.neck.distance, born.neck.height, born.neck.cutoff
            extra = neck(pair, distance[:, :, None], height[:, :, None], cutoff[:, :, None])
            integral = integral + extra.integral
        return inverse_radii((integral * tables.everyone[:, :, None]).sum(2), born).value

    def _pairs(self, positions: Positions, tables: PairTables) -> EnergyAndGradient:
        """Everything that acts between pairs of atoms."""
        pair = separations(positions, tables.nonbonded.atoms, self.smallest)
        bare = lennard_jones_coulomb(pair, tables.nonbonded)
        energy, slope = bare.energy.sum(1), bare.slope
        born = self.parameters.born
        if born is not None and self.born is not None:
            i, j = tables.nonbonded.atoms.unbind(1)
            first = _directed(pair, self.born.first, engulfed=born.engulfed)
            second = _directed(pair, self.born.second, engulfed=born.engulfed)
            both = torch.cat([first.integral, second.integral], dim=1)
            radius = inverse_radii(both[:, tables.direction_of].sum(2), born)
            alone = born_self(radius.value, born)
            product = radius.value[:, i] * radius.value[:, j]
            screened = born_pairs(pair, product, self.born.charges[:, None], born)
            energy = energy + alone.energy.sum(1) + screened.term.energy.sum(1)
            partner = radius.value[:, tables.others]
            together = (screened.inverse_radius_slope[:, tables.pair_of] * partner).sum(2)
            integral_slope = (alone.slope + together) * radius.slope
            slope = slope + screened.term.slope
            slope = slope + (integral_slope[:, i] * first.slope + integral_slope[:, j] * second.slope)
        # Where the separation was cut the energy is constant.
        apart = pair.squared > self.smallest * self.smallest
        slope = torch.where(apart, slope, torch.zeros_like(slope))
        difference = positions[:, :, :, None] - positions[:, :, tables.others]
        return EnergyAndGradient(energy, (slope[:, None, tables.pair_of] * difference).sum(3))


def _directed(pair: Separation, direction: Direction, *, engulfed: bool) -> Descreening:
    """Descreening of one atom of every pair by the other."""
    result = descreening(
        pair, direction.offset_radius[:, None], direction.scaled_radius[:, None], engulfed=engulfed
    )
    if direction.neck_distance is None or direction.neck_height is None or direction.neck_cutoff is None:
        return result
    extra = neck(
        pair, direction.neck_distance[:, None], direction.neck_height[:, None], direction.neck_cutoff[:, None]
    )
    return Descreening(result.integral + extra.integral, result.slope + extra.slope)
