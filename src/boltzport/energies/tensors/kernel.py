"""The energy of tiles of configurations, and its gradient, in stages that a compiler can fuse.

The gradient is written out term by term instead of using autograd: gathers would become scattered additions,
which do not vectorise, and the intermediate values of every pair would be kept.

A stage ends where it is better to store its results than to recompute them in each loop of the next stage, as
the compiler would do if it saw everything at once. A stage either works pair by pair or sums over partners.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.energies.tensors.bonded import (
    Contribution,
    fourier_torsions,
    harmonic_angles,
    harmonic_bonds,
    harmonic_impropers,
)
from boltzport.energies.tensors.born import (
    BornPairs,
    Descreening,
    Radii,
    born_pairs,
    born_self,
    descreening,
    effective_radii,
    neck,
)
from boltzport.energies.tensors.cmap import cmap_energy
from boltzport.energies.tensors.geometry import Positions, Scalars, Vector
from boltzport.energies.tensors.nonbonded import lennard_jones_coulomb, smallest_separation, squared_separations
from boltzport.energies.tensors.parameters import Nonbonded, Parameters, Term
from boltzport.energies.tensors.tables import (
    BornTables,
    PairTables,
    born_tables,
    convert,
    pair_tables,
    slots_of,
    spread,
)

Energies = Float[Tensor, "tiles lanes"]

# No molecule is ten micrometres wide; beyond that, products of four lengths would leave float32's range and give
# NaN. The caller of a kernel clips the coordinates to this value.
LARGEST_COORDINATE = 1e4


class EnergyAndGradient(NamedTuple):
    """Energies in kJ/mol and their gradient in kJ/mol/nm."""

    energy: Energies
    gradient: Positions


class PairSlopes(NamedTuple):
    """Energy of every pair and its derivatives.

    Attributes:
        energy: energy in kJ/mol.
        separation: derivative with respect to half the squared separation, kJ/mol/nm^2.
        inverse_radii: derivative with respect to the product of the inverse Born radii, if there are any.
    """

    energy: Scalars
    separation: Scalars
    inverse_radii: Scalars | None


class Kernel:
    """Energy and gradient of tiles of configurations, bound to parameters, a device and a precision."""

    STAGES = (
        "bonded_energy",
        "bonded_gradient",
        "nonbonded_energy",
        "radii",
        "solvated_energy",
        "descreen",
        "sum_radii",
        "pair_slopes",
        "sum_pairs",
        "pair_gradient",
    )

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

    def transform_stages(self, transform: Callable[[Any], Any]) -> None:
        """Replace every stage by its transform, for example a compiled one."""
        for name in self.STAGES:
            setattr(self, name, transform(getattr(self, name)))

    def terms(self, positions: Positions) -> dict[Term, Energies]:
        """Energy of each kind of term in kJ/mol, in the order of ``Parameters.terms``."""
        p = self.parameters
        bonded = iter(self._bonded(positions))
        energies: dict[Term, Energies] = {}
        for term in p.terms:
            if term is Term.NONBONDED:
                assert p.nonbonded is not None
                energies[term] = self.nonbonded_energy(positions, p.nonbonded)
            elif term is Term.BORN:
                energies[term] = self._born_energy(positions)
            else:
                energies[term] = next(bonded).energy.sum(1)
        for term, series in ((Term.TORSIONS, p.torsions), (Term.RB_TORSIONS, p.rb_torsions)):
            if series is not None:
                energies[term] = energies[term] + series.constant
        return energies

    def energy(self, positions: Positions) -> Energies:
        """Total energy in kJ/mol."""
        p = self.parameters
        total = self.bonded_energy(positions)
        if p.born is not None:
            return total + self.solvated_energy(positions, self.radii(positions))
        return total if p.nonbonded is None else total + self.nonbonded_energy(positions, p.nonbonded)

    def energy_and_gradient(self, positions: Positions) -> EnergyAndGradient:
        """Total energy in kJ/mol and its gradient in kJ/mol/nm."""
        bonded = self.bonded_gradient(positions)
        if self.pairs is None:
            return bonded
        if self.parameters.born is None:
            slopes = self.pair_slopes(positions, None)
            energy, _ = self.sum_pairs(slopes, None)
            gradient = self.pair_gradient(positions, slopes.separation, None, None)
        else:
            screening = self.descreen(positions)
            radii = self.sum_radii(screening.integral)
            slopes = self.pair_slopes(positions, radii)
            energy, weights = self.sum_pairs(slopes, radii)
            gradient = self.pair_gradient(positions, slopes.separation, screening.slope, weights)
        return EnergyAndGradient(bonded.energy + energy, bonded.gradient.add_(gradient))

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

    def bonded_energy(self, positions: Positions) -> Energies:
        """Energy of bonds, angles and torsions in kJ/mol."""
        total = torch.full_like(positions[:, 0, 0], self.constant)
        for part in self._bonded(positions):
            total = total + part.energy.sum(1)
        return total

    def bonded_gradient(self, positions: Positions) -> EnergyAndGradient:
        """Energy of bonds, angles and torsions in kJ/mol, and its gradient."""
        bonded = self._bonded(positions)
        total = torch.full_like(positions[:, 0, 0], self.constant)
        for part in bonded:
            total = total + part.energy.sum(1)
        slots = [slot for part in bonded for slot in part.gradients]
        if not slots:
            return EnergyAndGradient(total, torch.zeros_like(positions))
        nothing = torch.zeros_like(positions[:, 0, :1])
        axes = [torch.cat([*(slot[k] for slot in slots), nothing], dim=1) for k in range(3)]
        return EnergyAndGradient(total, torch.stack([axis[:, self.slots].sum(2) for axis in axes], dim=1))

    def nonbonded_energy(self, positions: Positions, nonbonded: Nonbonded) -> Energies:
        """Lennard-Jones and Coulomb energy in kJ/mol."""
        squared = squared_separations(positions, nonbonded.atoms, self.smallest)
        return lennard_jones_coulomb(squared, nonbonded).energy.sum(1)

    def radii(self, positions: Positions) -> Radii:
        """Born radii alone."""
        # Called on the class: on the instance a stage may have been replaced by its compiled form.
        return Kernel.sum_radii(self, Kernel.descreen(self, positions).integral)

    def solvated_energy(self, positions: Positions, radii: Radii) -> Energies:
        """Generalized Born together with Lennard-Jones and Coulomb over all pairs, kJ/mol."""
        assert self.parameters.born is not None
        own = born_self(radii, self.parameters.born).energy.sum(1)
        return own + Kernel.pair_slopes(self, positions, radii).energy.sum(1)

    def _born_energy(self, positions: Positions) -> Energies:
        """Generalized Born alone, kJ/mol."""
        assert self.parameters.born is not None
        assert self.pairs is not None
        radii = self.radii(positions)
        squared = squared_separations(positions, self.pairs.nonbonded.atoms, self.smallest)
        own = born_self(radii, self.parameters.born).energy.sum(1)
        return own + self._screened(squared, radii).term.energy.sum(1)

    def _screened(self, squared: Scalars, radii: Radii) -> BornPairs:
        """Generalized Born of every pair at given radii."""
        assert self.parameters.born is not None
        assert self.born is not None
        assert self.pairs is not None
        i, j = self.pairs.nonbonded.atoms.unbind(1)
        return born_pairs(
            squared,
            radii.value[:, i] * radii.value[:, j],
            radii.inverse[:, i] * radii.inverse[:, j],
            self.born.charges[:, None],
            self.parameters.born,
        )

    def descreen(self, positions: Positions) -> Descreening:
        """Descreening of every atom (second axis) by every other (third axis).

        Uses ordered pairs, since descreening has a direction; only the separation is computed twice.
        """
        born = self.parameters.born
        assert born is not None
        assert self.born is not None
        assert self.pairs is not None
        difference = Vector(*(x[:, :, None] - x[:, None] for x in positions.unbind(1)))
        squared = difference.dot(difference)
        smallest = self.smallest * self.smallest
        r = torch.sqrt(squared.clamp_min(smallest))
        integral, slope = descreening(
            r,
            born.offset_radius[:, None, None],
            self.born.inverse_offset_radius[:, None, None],
            born.scaled_radius[None, :, None],
            engulfed=born.engulfed,
        )
        if born.neck is not None:
            distance, height, cutoff = born.neck.distance, born.neck.height, born.neck.cutoff
            extra = neck(r, distance[:, :, None], height[:, :, None], cutoff[:, :, None])
            integral, slope = integral + extra.integral, slope + extra.slope
        # Where the separation was clamped, and on the diagonal, the energy is constant.
        slope = torch.where(squared > smallest, slope, torch.zeros_like(slope))
        return Descreening(integral * self.pairs.distinct[:, :, None], slope)

    def sum_radii(self, integral: Float[Tensor, "tiles atoms atoms lanes"]) -> Radii:
        """Born radii from the descreening of every atom by every other."""
        assert self.parameters.born is not None
        return effective_radii(integral.sum(2), self.parameters.born)

    def pair_slopes(self, positions: Positions, radii: Radii | None) -> PairSlopes:
        """Energy of every pair and its derivatives at constant radii."""
        assert self.pairs is not None
        nonbonded = self.pairs.nonbonded
        squared = squared_separations(positions, nonbonded.atoms, self.smallest)
        energy, slope = lennard_jones_coulomb(squared, nonbonded)
        through_radii = None
        if radii is not None:
            screened = self._screened(squared, radii)
            energy, slope = energy + screened.term.energy, slope + screened.term.slope
            through_radii = screened.inverse_radius_slope
        # Where the separation was clamped the energy is constant.
        slope = torch.where(squared > self.smallest * self.smallest, slope, torch.zeros_like(slope))
        return PairSlopes(energy, slope, through_radii)

    def sum_pairs(self, slopes: PairSlopes, radii: Radii | None) -> tuple[Energies, Scalars | None]:
        """Energy of all pairs and atoms in kJ/mol, and its derivative with respect to every descreening integral."""
        energy = slopes.energy.sum(1)
        if radii is None or slopes.inverse_radii is None:
            return energy, None
        assert self.parameters.born is not None
        assert self.pairs is not None
        own = born_self(radii, self.parameters.born)
        partner = radii.inverse[:, None] * self.pairs.distinct[:, :, None]
        together = (slopes.inverse_radii[:, self.pairs.pair_of] * partner).sum(2)
        return energy + own.energy.sum(1), (own.slope + together) * radii.slope

    def pair_gradient(
        self,
        positions: Positions,
        separation_slope: Float[Tensor, "tiles pairs lanes"],
        descreening_slope: Float[Tensor, "tiles atoms atoms lanes"] | None,
        weights: Float[Tensor, "tiles atoms lanes"] | None,
    ) -> Positions:
        """Gradient of all pair interactions in kJ/mol/nm."""
        assert self.pairs is not None
        slope = separation_slope[:, self.pairs.pair_of]
        if descreening_slope is not None and weights is not None:
            # Atom i descreened by j, and j by i; both depend on the separation.
            slope = slope + weights[:, :, None] * descreening_slope
            slope = slope + weights[:, None] * descreening_slope.transpose(1, 2)
        # One sum per axis: the loop over partners is then shared, and the slope is computed once.
        axes = [(slope * (x[:, :, None] - x[:, None])).sum(2) for x in positions.unbind(1)]
        return torch.stack(axes, dim=1)
