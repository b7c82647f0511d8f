"""The energy of a molecule: tensors where we translate its force field, OpenMM's processes where we do not."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from boltzport.errors import InputError
from boltzport.forcefield import ForceField, OpenMMEnergy, check_parity, extract
from boltzport.molecule import Molecule

CONFIGURATIONS = 8
"""How many configurations the parity check compares."""
DISPLACEMENT = 0.003
"""How far the check moves each atom from the reference structure, nm: about as far as heat does."""


@dataclass(frozen=True, kw_only=True)
class Energy:
    """An energy that is ready for use.

    Attributes:
        evaluate: Positions (batch, atoms, 3) in nm to energies in kJ/mol, differentiable once.
        backend: `tensors` or `openmm`.
        message: How far the tensors are from OpenMM, or why OpenMM is asked itself.
    """

    evaluate: ForceField | OpenMMEnergy
    backend: str
    message: str


@contextmanager
def open_energy(molecule: Molecule, *, compiled: bool = True) -> Iterator[Energy]:
    """Energy of a molecule, compared with OpenMM before it is handed out, and closed afterwards.

    Args:
        molecule: Molecule with its force field.
        compiled: Compile the tensors' kernels.

    Raises:
        ParityError: The tensors differ from OpenMM; the message names the term.
    """
    try:
        parameters = extract(molecule.system)
    except InputError as error:
        with OpenMMEnergy(molecule.system) as pool:
            yield Energy(evaluate=pool, backend="openmm", message=str(error))
        return
    field = ForceField(parameters, compiled=compiled)
    reference = torch.from_numpy(molecule.positions)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(CONFIGURATIONS, *reference.shape, generator=generator, dtype=reference.dtype)
    parity = check_parity(molecule.system, field, reference + DISPLACEMENT * noise)
    yield Energy(evaluate=field, backend="tensors", message=parity.message)
