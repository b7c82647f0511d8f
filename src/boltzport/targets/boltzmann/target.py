"""The Boltzmann density of a molecule in its internal coordinates."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.layout import Layout
from boltzport.energies import RegularisedEnergy
from boltzport.molecules import Column, Molecule
from boltzport.targets import Evaluated, Target
from boltzport.targets.boltzmann.harmonic import HarmonicMap


class BoltzmannTarget(Target):
    """exp(-u) with the regularised reduced energy u, with respect to Cartesian positions.

    Args:
        molecule: Molecule with its coordinate map and temperature.
        energy: Maps positions (batch, atoms, 3) in nm to energies in kJ/mol.
        layout: The coordinates, in the order of the molecule's coordinate map.
        map_: Map from the coordinates of the layout to internal ones; None if they are the same.
    """

    def __init__(
        self,
        molecule: Molecule,
        energy: Callable[[Tensor], Tensor],
        layout: Layout,
        map_: HarmonicMap | None = None,
    ) -> None:
        self.molecule = molecule
        self.map = map_
        self._energy = energy
        self._log_det = 0.0 if map_ is None else map_.log_det
        self._bounds = None if map_ is None else _bounds(molecule.coordinates.columns, map_)
        self.reduced_energy = RegularisedEnergy(energy, temperature=molecule.temperature)
        self._layout = layout

    @property
    def name(self) -> str:
        """Name of the molecule."""
        return self.molecule.name

    @property
    def layout(self) -> Layout:
        """Layout of the coordinates."""
        return self._layout

    @property
    def differentiable(self) -> bool:
        """Whether the energy has forces."""
        return bool(getattr(self._energy, "differentiable", True))

    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"]) -> Evaluated:
        """Minus the reduced energy, and the log-determinant of the map from coordinates to positions."""
        internal = self.internal(coordinates)
        positions, log_det = self.molecule.coordinates.to_cartesian(internal)
        log_p = -self.reduced_energy(positions).double()
        if self._bounds is not None:
            lower, upper = self._bounds.to(internal)
            # Mixed coordinates may be outside the range of a bond, an angle or a chiral torsion: the density is zero.
            log_p = torch.where(((internal < lower) | (internal > upper)).any(1), -torch.inf, log_p)
        return Evaluated(log_p, log_det.double() + self._log_det)

    def internal(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Internal coordinates of points of the layout."""
        return coordinates if self.map is None else self.map.to_internal(coordinates)

    def from_internal(self, internal: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Points of the layout from internal coordinates."""
        return internal if self.map is None else self.map.to_independent(internal)

    def positions(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch atoms 3"]:
        """Positions in nm of points of the layout."""
        return self.molecule.coordinates.to_cartesian(self.internal(coordinates)).positions


def _bounds(columns: Sequence[Column], map_: HarmonicMap) -> Float[Tensor, "2 dimensions"]:
    """Lower and upper bound of each internal coordinate; only local ones are bounded."""
    bounds = torch.tensor([-math.inf, math.inf], dtype=torch.float64)[:, None].repeat(1, len(columns))
    centres = map_.centre[len(map_.turning) :].tolist()
    for i, centre in zip(map_.local.tolist(), centres, strict=True):
        column = columns[i]
        # On a circle a local coordinate is less than half a turn from its centre.
        span = (centre - math.pi, centre + math.pi) if column.circular else (column.lower, column.upper)
        bounds[:, i] = torch.tensor(span, dtype=torch.float64)
    return bounds
