"""The Boltzmann density of a molecule in its internal coordinates."""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

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
    """

    def __init__(self, molecule: Molecule, energy: Callable[[Tensor], Tensor], layout: Layout) -> None:
        self.molecule = molecule
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
        positions, log_det = self.molecule.coordinates.to_cartesian(coordinates)
        return Evaluated(-self.reduced_energy(positions).double(), log_det.double())
