"""The energy of a molecule: tensors if its force field can be translated, else OpenMM processes, or a user's energy."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.energies import MMFF, Energy, ForceField, OpenMMEnergy, as_energy, check_parity, is_mmff
from boltzport.molecules import Molecule
from boltzport.targets import Ledger, Purpose

CONFIGURATIONS = 8
"""Number of configurations that the parity check compares."""
DISPLACEMENT = 0.003
"""Displacement in nm of each atom from the reference structure in the check, about that of thermal motion."""


@dataclass(frozen=True, kw_only=True)
class OpenEnergy(Closing):
    """An energy that is ready for use; as a context manager, it ends the processes it has started.

    Attributes:
        evaluate: The energy function.
        backend: `tensors`, `openmm` or `callable`.
        message: Difference between the tensors and OpenMM, or why the tensors are not used.
    """

    evaluate: Energy
    backend: str
    message: str

    def close(self) -> None:
        """End the OpenMM processes; they also end when the energy is garbage-collected."""
        if isinstance(self.evaluate, OpenMMEnergy):
            self.evaluate.close()


def open_energy(
    molecule: Molecule, *, energy: Energy | Callable[[Tensor], Tensor] | None = None, compiled: bool = True
) -> OpenEnergy:
    """Open the energy of a molecule, after a comparison with OpenMM.

    Args:
        molecule: Molecule with its force field.
        energy: User-defined energy that replaces the force field; it is not compared with OpenMM.
        compiled: Whether to compile the kernels of the tensors.

    Raises:
        ParityError: The tensors differ from OpenMM; the message names the term.
    """
    if energy is not None:
        return OpenEnergy(evaluate=as_energy(energy), backend="callable", message="user-defined energy")
    try:
        field = (
            MMFF.from_system(molecule.system)
            if is_mmff(molecule.system)
            else ForceField.from_system(molecule.system, compiled=compiled)
        )
    except InputError as error:
        return OpenEnergy(evaluate=OpenMMEnergy(molecule.system), backend="openmm", message=str(error))
    reference = torch.from_numpy(molecule.positions)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(CONFIGURATIONS, *reference.shape, generator=generator, dtype=reference.dtype)
    parity = check_parity(molecule.system, field, reference + DISPLACEMENT * noise)
    return OpenEnergy(evaluate=field, backend="tensors", message=parity.message)


class CountedEnergy:
    """An energy whose evaluations are counted under startup: those that build coordinates, before a target exists.

    Args:
        energy: Maps positions in nm to energies in kJ/mol.
        ledger: Ledger that counts the evaluations.
    """

    def __init__(self, energy: Callable[[Tensor], Tensor], ledger: Ledger) -> None:
        self._energy, self._ledger = energy, ledger

    @property
    def differentiable(self) -> bool:
        """Whether the energy has forces; true of a function that does not say."""
        return bool(getattr(self._energy, "differentiable", True))

    def __call__(self, positions: Float[Tensor, "batch atoms 3"]) -> Float[Tensor, " batch"]:
        """Evaluate the energy and count the evaluations."""
        gradients = len(positions) if positions.requires_grad else 0
        self._ledger.add(Purpose.STARTUP, evaluations=len(positions), gradients=gradients)
        return self._energy(positions)
