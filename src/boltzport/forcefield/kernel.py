"""The whole energy of tiles of configurations, and its gradient, as functions that a compiler can fuse.

The gradient is written out term by term and not left to autograd: gathers would become scattered additions, which do
not vectorise, and every pair's intermediate values would be kept.
"""

from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Float, Int
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

Energies = Float[Tensor, "tiles lanes"]
Record = TypeVar("Record")

# No molecule is ten micrometres wide; beyond, products of four lengths would leave float32's range and give NaN.
LARGEST_COORDINATE = 1e4


class EnergyAndGradient(NamedTuple):
    """Energies in kJ/mol and their gradient in kJ/mol/nm."""

    energy: Energies
    gradient: Positions


def spread(tensor: Tensor) -> Tensor:
    """The same values, no two of them adjacent in memory.

    The compiler vectorises along the last axis in which any operand is contiguous. This must be the axis of
    configurations, so no table of constants may be contiguous along another.
    """
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


def convert(record: Record, device: torch.device, dtype: torch.dtype) -> Record:
    """The record (and records inside it) on a device, its real tensors in a precision, spread."""
    changes: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            changes[field.name] = spread(value.to(device, dtype if value.is_floating_point() else value.dtype))
        elif is_dataclass(value):
            changes[field.name] = convert(value, device, dtype)
    return replace(record, **changes)  # type: ignore[type-var]


def all_pairs(atoms: int, nonbonded: Nonbonded | None) -> Nonbonded:
    """Lennard-Jones and Coulomb over every pair, excluded ones with zero parameters."""
    rows, columns = torch.triu_indices(atoms, atoms, 1)
    values = torch.zeros(3, atoms, atoms, dtype=torch.float64)
    if nonbonded is not None:
        i, j = nonbonded.atoms.unbind(1)
        values[:, i, j] = torch.stack([nonbonded.coulomb, nonbonded.c6, nonbonded.c12])
    coulomb, c6, c12 = values[:, rows, columns]
    return Nonbonded(atoms=torch.stack([rows, columns], dim=1), coulomb=coulomb, c6=c6, c12=c12)


def partners(atoms: int) -> Int[Tensor, "atoms others"]:
    """For every atom all the others."""
    everyone = torch.arange(atoms).expand(atoms, atoms)
    return everyone[~torch.eye(atoms, dtype=torch.bool)].reshape(atoms, atoms - 1)


def inverse_table(slots: Int[Tensor, " slots"], atoms: int) -> Int[Tensor, "atoms most"]:
    """For every atom the slots that act on it, filled up with the number of slots."""
    lists = [torch.nonzero(slots == atom)[:, 0] for atom in range(atoms)]
    most = max((len(entries) for entries in lists), default=0)
    table = torch.full((atoms, most), len(slots), dtype=torch.long)
    for row, entries in zip(table, lists, strict=True):
        row[: len(entries)] = entries
    return table


class Kernel:
    """Energy and gradient of tiles of configurations, bound to parameters, a device and a precision."""

    def __init__(self, parameters: Parameters, device: torch.device, dtype: torch.dtype) -> None:
        self.parameters = convert(parameters, device, dtype)
        self.smallest = smallest_separation(parameters.nonbonded)
        self.constant = sum(t.constant for t in (parameters.torsions, parameters.rb_torsions) if t is not None)
        self._device, self._dtype = device, dtype
        atoms = parameters.atoms
        if parameters.nonbonded is None and parameters.born is None:
            self.pairs: Nonbonded | None = None
        else:
            pairs = all_pairs(atoms, parameters.nonbonded)
            i, j = pairs.atoms.unbind(1)
            self.pairs = convert(pairs, device, dtype)
            others = partners(atoms)
            row = torch.zeros(atoms, atoms, dtype=torch.long)
            row[i, j] = row[j, i] = torch.arange(len(i))
            pair_of = row.gather(1, others)
            self.others = self._index(others)
            self.pair_of = self._index(pair_of)
            # A pair's two directions: the first atom descreened by the second, then the second by the first.
            self.direction_of = self._index(torch.where(others > torch.arange(atoms)[:, None], pair_of, pair_of + len(i)))
        self.distinct = self._real(1.0 - torch.eye(atoms))[:, :, None]
        if any(self._bonded_records()):
            zeros = torch.zeros(1, 3, atoms, 1, device=device, dtype=dtype)
            slots = torch.cat([slot for part in self._bonded(zeros) for slot in part.atoms]).cpu()
            self.slot_table = self._index(inverse_table(slots, atoms))

    def _index(self, tensor: Tensor) -> Tensor:
        return spread(tensor.to(self._device))

    def _real(self, tensor: Tensor) -> Tensor:
        return spread(tensor.to(self._device, self._dtype))

    def _bonded_records(self) -> list[object]:
        p = self.parameters
        return [r for r in (p.bonds, p.angles, p.torsions, p.rb_torsions, p.impropers, p.cmap) if r is not None]

    def _bonded(self, positions: Positions) -> list[Contribution]:
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
        return lennard_jones_coulomb(separations(positions, nonbonded.atoms, self.smallest), nonbonded).energy.sum(1)

    def _inverse_radii(self, positions: Positions, born: Born) -> Scalars:
        """Inverse Born radii alone. Over ordered pairs: descreening has a direction, so nothing is done twice."""
        difference = positions[:, :, :, None] - positions[:, :, None]
        pair = separation(dot(difference, difference), self.smallest)
        integral = descreening(
            pair, born.offset_radius[:, None, None], born.scaled_radius[None, :, None], engulfed=born.engulfed
        ).integral
        if born.neck is not None:
            distance, height, cutoff = born.neck.distance, born.neck.height, born.neck.cutoff
            integral = integral + neck(pair, distance[..., None], height[..., None], cutoff[..., None]).integral
        return inverse_radii((integral * self.distinct).sum(2), born).value

    def _born_energy(self, positions: Positions, born: Born, pairs: Nonbonded) -> Energies:
        """Generalized Born together with the Lennard-Jones and Coulomb terms of ``pairs``."""
        inverse_radius = self._inverse_radii(positions, born)
        i, j = pairs.atoms.unbind(1)
        pair = separations(positions, pairs.atoms, self.smallest)
        charges = (born.charge[i] * born.charge[j])[:, None]
        screened = born_pairs(pair, inverse_radius[:, i] * inverse_radius[:, j], charges, born).term.energy
        bare = lennard_jones_coulomb(pair, pairs).energy
        return born_self(inverse_radius, born).energy.sum(1) + (bare + screened).sum(1)

    def terms(self, positions: Positions) -> dict[Term, Energies]:
        """Energy of every kind of term in kJ/mol."""
        positions = positions.clamp(-LARGEST_COORDINATE, LARGEST_COORDINATE)
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
                zero = torch.zeros_like(self.pairs.c6)
                silent = replace(self.pairs, coulomb=zero, c6=zero, c12=zero)
                energies[term] = self._born_energy(positions, p.born, silent)
            else:
                energies[term] = next(bonded).energy.sum(1)
        for term, series in ((Term.TORSIONS, p.torsions), (Term.RB_TORSIONS, p.rb_torsions)):
            if series is not None:
                energies[term] = energies[term] + series.constant
        return energies

    def energy(self, positions: Positions) -> Energies:
        """Total energy in kJ/mol."""
        positions = positions.clamp(-LARGEST_COORDINATE, LARGEST_COORDINATE)
        p = self.parameters
        total = torch.full_like(positions[:, 0, 0], self.constant)
        for part in self._bonded(positions):
            total = total + part.energy.sum(1)
        if p.born is not None and self.pairs is not None:
            total = total + self._born_energy(positions, p.born, self.pairs)
        elif p.nonbonded is not None:
            total = total + self._nonbonded_energy(positions, p.nonbonded)
        return total

    def energy_and_gradient(self, positions: Positions) -> EnergyAndGradient:
        """Total energy in kJ/mol and its gradient in kJ/mol/nm."""
        inside = positions.abs() <= LARGEST_COORDINATE
        positions = positions.clamp(-LARGEST_COORDINATE, LARGEST_COORDINATE)
        total = torch.full_like(positions[:, 0, 0], self.constant)
        gradient = torch.zeros_like(positions)
        bonded = self._bonded(positions)
        if bonded:
            total = total + torch.stack([part.energy.sum(1) for part in bonded]).sum(0)
            slots = [slot for part in bonded for slot in part.gradients]
            nothing = torch.zeros_like(positions[:, :, :1])
            gradient = gradient + torch.cat([*slots, nothing], dim=2)[:, :, self.slot_table].sum(3)
        if self.pairs is not None:
            pairs = self._pairs(positions, self.pairs)
            total, gradient = total + pairs.energy, gradient + pairs.gradient
        # Positions that were clamped have no influence on the energy; NaN stays NaN.
        return EnergyAndGradient(total, torch.where(inside | gradient.isnan(), gradient, torch.zeros_like(gradient)))

    def _pairs(self, positions: Positions, pairs: Nonbonded) -> EnergyAndGradient:
        pair = separations(positions, pairs.atoms, self.smallest)
        bare = lennard_jones_coulomb(pair, pairs)
        energy, slope = bare.energy.sum(1), bare.slope
        born = self.parameters.born
        if born is not None:
            i, j = pairs.atoms.unbind(1)
            forth, back = self._directions(pair, i, j, born), self._directions(pair, j, i, born)
            integral = torch.cat([forth.integral, back.integral], dim=1)[:, self.direction_of].sum(2)
            radius = inverse_radii(integral, born)
            alone = born_self(radius.value, born)
            charges = (born.charge[i] * born.charge[j])[:, None]
            screened = born_pairs(pair, radius.value[:, i] * radius.value[:, j], charges, born)
            energy = energy + alone.energy.sum(1) + screened.term.energy.sum(1)
            others = (screened.inverse_radius_slope[:, self.pair_of] * radius.value[:, self.others]).sum(2)
            integral_slope = (alone.slope + others) * radius.slope
            through_radii = integral_slope[:, i] * forth.slope + integral_slope[:, j] * back.slope
            slope = slope + screened.term.slope + through_radii
        # Where the separation was clamped the energy is constant.
        apart = pair.squared > self.smallest * self.smallest
        slope = torch.where(apart | slope.isnan(), slope, torch.zeros_like(slope))
        difference = positions[:, :, :, None] - positions[:, :, self.others]
        return EnergyAndGradient(energy, (slope[:, None, self.pair_of] * difference).sum(3))

    def _directions(self, pair: Separation, subject: Tensor, other: Tensor, born: Born) -> Descreening:
        """Descreening of ``subject`` by ``other`` for every pair."""
        result = descreening(
            pair,
            born.offset_radius[subject][:, None],
            born.scaled_radius[other][:, None],
            engulfed=born.engulfed,
        )
        if born.neck is None:
            return result
        distance, height, cutoff = (
            table[subject, other][:, None] for table in (born.neck.distance, born.neck.height, born.neck.cutoff)
        )
        extra = neck(pair, distance, height, cutoff)
        return Descreening(result.integral + extra.integral, result.slope + extra.slope)
