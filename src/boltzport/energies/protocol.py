"""`Energy`: the protocol of all energies of a molecule, and an adapter for user-defined functions."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies.differentiate import EnergyAndForces, differentiable_energy


@runtime_checkable
class Energy(Protocol):
    """Protocol of energies of many configurations at once.

    `ForceField` and `MMFF` (tensors), `OpenMMEnergy` (OpenMM processes) and `CallableEnergy` (any function) are
    energies.

    Attributes:
        differentiable: Whether torch can differentiate the energies with respect to the positions.

    Example:
        >>> isinstance(CallableEnergy(lambda positions: positions.square().sum((1, 2))), Energy)
        True
    """

    @property
    def differentiable(self) -> bool:
        """Whether there are forces."""

    def __call__(self, positions: Tensor) -> Tensor:
        """Energies (batch,) in kJ/mol of positions (batch, atoms, 3) in nm; NaN where an evaluation failed."""


class CallableEnergy:
    """A user-defined function as an energy.

    Args:
        function: Maps positions (batch, atoms, 3) in nm to energies (batch,) in kJ/mol.
        forces: Maps positions to forces (batch, atoms, 3) in kJ/mol/nm, if torch cannot differentiate the function.
        differentiable: Whether torch can differentiate the function; ignored if `forces` is given.

    Example:
        >>> energy = CallableEnergy(lambda positions: 0.5 * positions.square().sum((1, 2)))
        >>> energy(torch.ones(2, 3, 3))
        tensor([4.5000, 4.5000])
    """

    def __init__(
        self,
        function: Callable[[Tensor], Tensor],
        *,
        forces: Callable[[Tensor], Tensor] | None = None,
        differentiable: bool = True,
    ) -> None:
        self._function, self._forces = function, forces
        self.differentiable = differentiable or forces is not None

    def __call__(self, positions: Tensor) -> Tensor:
        """Energies in kJ/mol of positions in nm."""
        if self._forces is not None and positions.requires_grad and torch.is_grad_enabled():
            return differentiable_energy(positions, self._energy_and_forces)
        if not self.differentiable:
            positions = positions.detach()
        return self._checked(self._function(positions), positions.shape[:1], "energies")

    def _energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        assert self._forces is not None
        positions = positions.detach()
        energies = self._checked(self._function(positions), positions.shape[:1], "energies")
        return EnergyAndForces(energies, self._checked(self._forces(positions), positions.shape, "forces"))

    @staticmethod
    def _checked(found: object, shape: torch.Size, what: str) -> Tensor:
        if not isinstance(found, Tensor) or found.shape != shape:
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"the {what} of a function: expected a tensor of shape {tuple(shape)}, got {got}")
        return found


def as_energy(energy: Energy | Callable[[Tensor], Tensor]) -> Energy:
    """Return an energy unchanged, or wrap a function as one."""
    return energy if isinstance(energy, Energy) else CallableEnergy(energy)
