"""The energy of a molecule: tensors if its force field can be translated, else OpenMM processes, or a user's energy."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import Energy, ForceField, OpenMMEnergy, as_energy, check_parity
from boltzport.molecules import Molecule

CONFIGURATIONS = 8
"""Number of configurations that the parity check compares."""
DISPLACEMENT = 0.003
"""Displacement in nm of each atom from the reference structure in the check, about that of thermal motion."""


@dataclass(frozen=True, kw_only=True)
class OpenEnergy:
    """An energy that is ready for use; as a context manager, it ends the processes it has started.

    Attributes:
        evaluate: The energy function.
        backend: `tensors`, `openmm` or `callable`.
        message: Difference between the tensors and OpenMM, or why the tensors are not used.
    """

    evaluate: Energy
    backend: str
    message: str

    def __enter__(self) -> "OpenEnergy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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
        field = ForceField.from_system(molecule.system, compiled=compiled)
    except InputError as error:
        return OpenEnergy(evaluate=OpenMMEnergy(molecule.system), backend="openmm", message=str(error))
    reference = torch.from_numpy(molecule.positions)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(CONFIGURATIONS, *reference.shape, generator=generator, dtype=reference.dtype)
    parity = check_parity(molecule.system, field, reference + DISPLACEMENT * noise)
    return OpenEnergy(evaluate=field, backend="tensors", message=parity.message)
