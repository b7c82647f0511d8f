"""The Boltzmann density of a molecule in its internal coordinates."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.boltzmann.harmonic import HarmonicMap
from boltzport.forcefield import RegularisedEnergy
from boltzport.layout import Layout
from boltzport.molecule import Molecule
from boltzport.targets import Evaluated, Target


class BoltzmannTarget(Target):
    """exp(-u) with the regularised reduced energy u, with respect to Cartesian positions.

    Args:
        molecule: Molecule with its coordinate map and temperature.
        energy: Positions (batch, atoms, 3) in nm to energies in kJ/mol.
        layout: The coordinates, in the order of the molecule's coordinate map.
        map_: From the coordinates of the layout to internal ones; none where they are the same.
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
        self._log_det = 0.0 if map_ is None else map_.log_det
        columns = molecule.coordinates.columns
        self._lower = torch.tensor([column.lower for column in columns], dtype=torch.float64)
        self._upper = torch.tensor([column.upper for column in columns], dtype=torch.float64)
        self._local = torch.zeros(len(columns), dtype=torch.bool) if map_ is None else _mask(map_.local, len(columns))
        self.reduced_energy = RegularisedEnergy(energy, temperature=molecule.temperature)
        self._layout = layout

    @property
    def name(self) -> str:
        """Name of the molecule."""
        return self.molecule.name

    @property
    def layout(self) -> Layout:
        """Its internal coordinates."""
        return self._layout

    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"]) -> Evaluated:
        """Minus the reduced energy, and the log-determinant of the map from coordinates to positions."""
        internal = self.internal(coordinates)
        positions, log_det = self.molecule.coordinates.to_cartesian(internal)
        log_p = -self.reduced_energy(positions).double()
        if self.map is not None:
            lower, upper = self._lower.to(internal), self._upper.to(internal)
            # Mixed coordinates may lie outside of what a bond, an angle or a handedness allows: no molecule is there.
            outside = (((internal < lower) | (internal > upper)) & self._local.to(internal.device)).any(1)
            log_p = torch.where(outside, -torch.inf, log_p)
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


def _mask(indices: Tensor, n: int) -> Tensor:
    mask = torch.zeros(n, dtype=torch.bool)
    mask[indices] = True
    return mask
