"""The energy of a molecule: tensors if its force field can be translated, else OpenMM processes, or a user's energy."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.energies import (
    ASE,
    MMFF,
    Energy,
    EnergyLike,
    ExpensiveEnergy,
    ForceField,
    OpenMMEnergy,
    ProcessEnergy,
    as_energy,
    check_parity,
    describe_named,
    is_mmff,
    name_of,
    named_energy,
)
from boltzport.molecules import Molecule
from boltzport.targets import Ledger, Purpose

CONFIGURATIONS = 8
"""Number of configurations that the parity check compares."""
PROGRAMS = ("PythonForce", "TorchForce")
"""Forces of OpenMM that are programs, such as neural networks: expensive, and so evaluated only once."""
DISPLACEMENT = 0.003
"""Displacement in nm of each atom from the reference structure in the check, about that of thermal motion."""


@dataclass(frozen=True, kw_only=True)
class OpenEnergy(Closing):
    """An energy that is ready for use; as a context manager, it ends the processes it has started.

    Attributes:
        evaluate: The energy function.
        backend: `tensors`, `openmm`, `callable`, `ase`, or the name of the energy.
        message: Difference between the tensors and OpenMM, why the tensors are not used, or what the energy is.
    """

    evaluate: Energy
    backend: str
    message: str

    def close(self) -> None:
        """End the processes; they also end when the energy is garbage-collected."""
        if isinstance(self.evaluate, Closing):
            self.evaluate.close()

    @property
    def expensive(self) -> ExpensiveEnergy | None:
        """The energy, if it is one whose evaluations are kept and timed."""
        return self.evaluate if isinstance(self.evaluate, ExpensiveEnergy) else None


def open_energy(
    molecule: Molecule, *, energy: EnergyLike | None = None, compiled: bool = True, record: Path | None = None
) -> OpenEnergy:
    """Open the energy of a molecule, after a comparison with OpenMM.

    Args:
        molecule: Molecule with its force field.
        energy: Energy that replaces the force field, or its name; it is not compared with OpenMM.
        compiled: Whether to compile the kernels of the tensors.
        record: File of the evaluations of an expensive energy; None to keep none.

    Raises:
        InputError: There is no such energy, or it has no energy of the reference structure.
        ParityError: The tensors differ from OpenMM; the message names the term.
    """
    if isinstance(energy, str | ASE | ProcessEnergy) and not isinstance(energy, OpenMMEnergy):
        return _open_expensive(molecule, energy, record)
    if energy is not None:
        return OpenEnergy(evaluate=as_energy(energy), backend="callable", message="user-defined energy")
    try:
        field = (
            MMFF.from_system(molecule.system)
            if is_mmff(molecule.system)
            else ForceField.from_system(molecule.system, compiled=compiled)
        )
    except InputError as error:
        pool = OpenMMEnergy(molecule.system)
        if not any(type(force).__name__ in PROGRAMS for force in molecule.system.getForces()):
            return OpenEnergy(evaluate=pool, backend="openmm", message=str(error))
        identity = pool.fingerprint
        kept = ExpensiveEnergy(pool, identity=identity, atoms=molecule.topology.n_atoms, path=record)
        return OpenEnergy(evaluate=kept, backend="openmm", message=str(error))
    reference = torch.from_numpy(molecule.positions)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(CONFIGURATIONS, *reference.shape, generator=generator, dtype=reference.dtype)
    parity = check_parity(molecule.system, field, reference + DISPLACEMENT * noise)
    return OpenEnergy(evaluate=field, backend="tensors", message=parity.message)


def _open_expensive(molecule: Molecule, energy: str | ASE | ProcessEnergy, record: Path | None) -> OpenEnergy:
    """Open an energy in processes, after one evaluation of the reference structure."""
    elements, identity = molecule.topology.elements, name_of(energy) or type(energy).__name__
    if isinstance(energy, str):
        made: ProcessEnergy = named_energy(energy, elements, charge=molecule.charge)
        backend, message = energy, describe_named(energy, charge=molecule.charge)
        identity += f" {molecule.charge:+d}"
    elif isinstance(energy, ASE):
        made, backend, message = energy.of(elements), "ase", f"the ASE calculator {energy.name}"
    else:
        made, backend, message = energy, "processes", identity
    identity += f" {' '.join(map(str, elements))}"
    opened = ExpensiveEnergy(made, identity=identity, atoms=len(elements), path=record)
    if not bool(opened(torch.from_numpy(molecule.positions)[None]).isfinite()):
        opened.close()
        why = made.complaint or "it is not finite"
        raise InputError(f"{identity.split()[0]} has no energy of the reference structure of {molecule.name}: {why}")
    return OpenEnergy(evaluate=opened, backend=backend, message=message)


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
