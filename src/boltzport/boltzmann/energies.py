"""The energy of a molecule: tensors where its force field is translated, OpenMM's processes elsewhere, or a user's."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

import torch
from torch import Tensor

from boltzport.errors import InputError
from boltzport.forcefield import Energy, ForceField, OpenMMEnergy, as_energy, check_parity
from boltzport.molecule import Molecule

CONFIGURATIONS = 8
"""How many configurations the parity check compares."""
DISPLACEMENT = 0.003
"""How far the check moves each atom from the reference structure, nm: about as far as heat does."""


@dataclass(frozen=True, kw_only=True)
class OpenEnergy:
    """An energy that is ready for use; as a context manager it ends what it has started.

    Attributes:
        evaluate: The energy.
        backend: `tensors`, `openmm` or `callable`.
        message: How far the tensors are from OpenMM, or why they are not used.
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
        """End the processes of OpenMM; they also end when nobody holds the energy any more."""
        if isinstance(self.evaluate, OpenMMEnergy):
            self.evaluate.close()


def open_energy(
    molecule: Molecule, *, energy: Energy | Callable[[Tensor], Tensor] | None = None, compiled: bool = True
) -> OpenEnergy:
    """Energy of a molecule, compared with OpenMM before it is handed out.

    Args:
        molecule: Molecule with its force field.
        energy: A user's own energy instead of the force field's; it is not compared with anything.
        compiled: Compile the tensors' kernels.

    Raises:
        ParityError: The tensors differ from OpenMM; the message names the term.
    """
    if energy is not None:
        return OpenEnergy(evaluate=as_energy(energy), backend="callable", message="an energy of the user")
    try:
        field = ForceField.from_system(molecule.system, compiled=compiled)
    except InputError as error:
        return OpenEnergy(evaluate=OpenMMEnergy(molecule.system), backend="openmm", message=str(error))
    reference = torch.from_numpy(molecule.positions)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(CONFIGURATIONS, *reference.shape, generator=generator, dtype=reference.dtype)
    parity = check_parity(molecule.system, field, reference + DISPLACEMENT * noise)
    return OpenEnergy(evaluate=field, backend="tensors", message=parity.message)
