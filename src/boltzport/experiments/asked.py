"""The target that the arguments of `train` ask for."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from boltzport.core.errors import InputError
from boltzport.experiments.build import GIVEN, Given
from boltzport.experiments.config import Kind, MoleculeConfig
from boltzport.targets import Target

if TYPE_CHECKING:
    from boltzport.energies import EnergyLike
    from boltzport.molecules import Molecule


class Asked(NamedTuple):
    """The target that a user asks for.

    Attributes:
        name: Name of the target.
        kind: Kind of the target; None if the name decides it.
        given: Objects passed by the user.
        made: How the molecule is built.
        atoms: Number of atoms, if the user passed a molecule.
    """

    name: str
    kind: Kind | None
    given: Given
    made: MoleculeConfig
    atoms: int | None = None


def asked_for(system: "str | Molecule | Target", energy: "EnergyLike | None") -> Asked:
    """The target of the arguments of `train`.

    Args:
        system: Its first argument.
        energy: Another energy than the force field of a molecule.

    Raises:
        InputError: A density takes no energy.
    """
    made = _energy_config(energy)
    energy = None if isinstance(energy, str) else energy
    if isinstance(system, str):
        return Asked(system, None, Given(energy=energy), made)
    if isinstance(system, Target):
        if made.energy is not None:
            raise InputError(f"energy: {system.name} is a density, not a molecule, and takes no energy; leave it out")
        return Asked(system.name, "density", Given(density=system), made)
    how = {"temperature": system.temperature, "source": "system"} if system.made is None else system.made._asdict()
    given = Given(molecule=system, energy=energy)
    return Asked(system.name, "molecule", given, replace(made, **how), system.topology.n_atoms)


def _energy_config(energy: "EnergyLike | None") -> MoleculeConfig:
    """How the energy is recorded: by its name, or as the user's own."""
    if energy is None:
        return MoleculeConfig()
    from boltzport.energies import check_energy_name, name_of

    if isinstance(energy, str):
        return MoleculeConfig(energy=check_energy_name(energy))
    return MoleculeConfig(energy=GIVEN, energy_settings=name_of(energy))
