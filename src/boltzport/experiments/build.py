"""Build the target, the flow and the method of a configuration. Molecules are imported only when one is used."""

import difflib
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from boltzport.analysis.metrics import Origin
from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, write_atomically
from boltzport.core.layout import LayoutKind
from boltzport.experiments.config import RunConfig
from boltzport.experiments.inputs import with_inputs
from boltzport.experiments.samples import training_samples
from boltzport.flows import Flow, load_flow
from boltzport.targets import TOYS, CountedTarget, Ledger, Target, Toy, toy
from boltzport.training import Method
from boltzport.training.methods import method_entry

if TYPE_CHECKING:
    from boltzport.energies import EnergyLike
    from boltzport.ensembles.reference import Reference
    from boltzport.molecules import Molecule
    from boltzport.targets.boltzmann import OpenEnergy, Space

_LOG = logging.getLogger("boltzport")

GIVEN = "given"
"""Name of an energy that only the user has."""

LARGEST = 75
"""Number of atoms of ELIL, the largest molecule with a useful flow; see the README."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """Objects passed by the user, which are not built from the configuration.

    Attributes:
        molecule: The molecule.
        energy: Its energy, in any form that `boltzport.train` takes.
        density: A target that is not a molecule.
        reference: Reference that a method learns from.
    """

    molecule: "Molecule | None" = None
    energy: "EnergyLike | None" = None
    density: Target | None = None
    reference: "Reference | None" = None


@dataclass(frozen=True, kw_only=True)
class OpenTarget(Closing):
    """A target that is ready for use; as a context manager it ends the processes of its energy.

    Attributes:
        counted: The target, with its ledger.
        molecule: The molecule; None for another target.
        energy: The energy of the molecule; None for another target.
    """

    counted: CountedTarget
    molecule: "Molecule | None" = None
    energy: "OpenEnergy | None" = None

    def close(self) -> None:
        """End the processes of the energy, if it has any."""
        if self.energy is not None:
            self.energy.close()

    def with_ledger(self, ledger: Ledger) -> "OpenTarget":
        """The same target with another ledger."""
        return replace(self, counted=CountedTarget(self.counted.target, ledger))

    def save(self, directory: RunDirectory) -> None:
        """Write the structure and the coordinates of a molecule, from which its target is built again."""
        if self.molecule is None:
            return
        from boltzport.targets.boltzmann import BoltzmannTarget

        assert isinstance(self.counted.target, BoltzmannTarget)
        self.molecule.write_pdb(directory.structure)
        if self.molecule.made is None:
            self.molecule.write_system(directory.system)
        if (sdf := self.molecule.sdf) is not None:
            write_atomically(directory.molecule, lambda file: file.write(sdf.encode()))
        if self.counted.target.map is not None:
            self.counted.target.map.save(directory.coordinates)

    @property
    def toy(self) -> Toy | None:
        """The toy; None for another target."""
        return self.counted.target if isinstance(self.counted.target, Toy) else None


class Start(NamedTuple):
    """A trained flow that a training starts from.

    Attributes:
        flow: The flow.
        target: Target of the training, on the coordinates of the flow.
        origin: What the flow was trained on.
    """

    flow: Flow
    target: OpenTarget
    origin: Origin | None


def kind_of(system: str) -> Literal["molecule", "toy"]:
    """Whether a name denotes a toy or a molecule."""
    return "toy" if system in TOYS else "molecule"


def check_name(system: str) -> None:
    """Check that the name of a molecule is not a toy, or a misspelt one.

    Raises:
        InputError: It is, or it is nearer to the name of a toy than to a sequence; the message names the toy.
    """
    if system in TOYS:
        raise InputError(f"{system} is a toy; expected a molecule: a name, a sequence, a SMILES or a file")
    near = difflib.get_close_matches(system.lower(), TOYS, n=1, cutoff=0.7)
    if near and not system.isupper() and not Path(system).exists():
        raise InputError(f"unknown system {system!r}; did you mean {near[0]!r}?")


def feasibility(atoms: int) -> tuple[str, ...]:
    """A note on a molecule that is larger than any that was trained; empty for others."""
    if atoms <= LARGEST:
        return ()
    return (
        f"{atoms} atoms: the largest molecule that was trained to an ESS of 20 % has {LARGEST}; expect hours, and "
        "perhaps an ESS near zero",
    )


def load_molecule(config: RunConfig, directory: RunDirectory | None = None) -> "Molecule":
    """The molecule of a run.

    Args:
        config: Configuration of the run.
        directory: Run directory, which holds the files of a molecule that was an `openmm.System`, and the structure of
            a small molecule.

    Raises:
        InputError: The molecule cannot be built; the message says why.
    """
    from boltzport.molecules import Molecule, read_system

    if directory is not None and directory.molecule.is_file():
        # Not embedded again: the order of hydrogens is that of the structure that the flow was trained with.
        return Molecule.from_sdf(directory.molecule, name=config.system, temperature=config.molecule.temperature)
    kept = config if directory is None else with_inputs(config, directory)
    made = kept.molecule
    if made.source is None:
        molecule = Molecule(
            kept.system,
            forcefield=made.forcefield,
            constraints=made.constraints,
            ph=made.ph,
            keep=made.keep,
            add_hydrogens=made.add_hydrogens,
            temperature=made.temperature,
        )
        molecule.name = config.system if kept.system != config.system else molecule.name
        return molecule
    if directory is None:
        raise InputError(f"{config.system} is a user's openmm.System, which only its run directory holds")
    system, structure = (directory.require(file, "boltzport.train") for file in (directory.system, directory.structure))
    return read_system(system, structure, temperature=made.temperature, name=config.system)


def open_target(
    config: RunConfig,
    *,
    saved: RunDirectory | None = None,
    ledger: Ledger | None = None,
    given: Given | None = None,
    record: Path | None = None,
    space: "Space | None" = None,
) -> OpenTarget:
    """Build the target of a run.

    Args:
        config: Configuration of the run.
        saved: Run directory with a flow, whose coordinates are used; new ones are built by default.
        ledger: Counts the evaluations.
        given: Objects passed by the user.
        record: File of the evaluations of an expensive energy.
        space: Coordinates of a molecule; by default those of `saved`.

    Raises:
        InputError: There is no such system, or the run needs an object that only the user has.
        ParityError: The tensors differ from OpenMM.
    """
    given = given or Given()
    ledger = Ledger() if ledger is None else ledger
    if config.kind == "toy":
        return OpenTarget(counted=CountedTarget(toy(config.system), ledger))
    if config.kind == "density":
        if given.density is None:
            raise InputError(f"{config.system} is a user's density, which no file holds; pass it as density=...")
        return OpenTarget(counted=CountedTarget(given.density, ledger))
    from boltzport.targets.boltzmann import BoltzmannTarget, HarmonicMap, Space, open_energy

    own = _energy_of(config, given)
    molecule = given.molecule or load_molecule(config, saved)
    energy = open_energy(molecule, energy=own, record=record)
    if space is None and saved is None:
        molecule, space = _new_space(config, molecule, energy, ledger)
    elif space is None:
        assert saved is not None
        map_ = HarmonicMap.load(saved.coordinates) if saved.coordinates.is_file() else None
        flow = saved.flow if saved.flow.is_file() else saved.start
        space = Space(layout=load_flow(flow).layout, map=map_)
    target = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
    return OpenTarget(counted=CountedTarget(target, ledger), molecule=molecule, energy=energy)


def _energy_of(config: RunConfig, given: Given) -> "EnergyLike | None":
    """The energy that a run was started with; None for the force field.

    Raises:
        InputError: The user must pass it, or passes another one.
    """
    made = config.molecule
    if made.energy is None or made.energy == GIVEN:
        known = f" ({made.energy_settings})" if made.energy_settings else ""
        if made.energy == GIVEN and given.energy is None:
            raise InputError(
                f"the energy of {config.system} is a user's{known}, which no file holds; pass it as energy=..."
            )
        if made.energy_settings:
            from boltzport.energies import name_of

            if name_of(given.energy) != made.energy_settings:
                got = name_of(given.energy) or "a function"
                raise InputError(f"energy: the run of {config.system} has {made.energy_settings}, got {got}")
        return given.energy
    if given.energy is not None:
        raise InputError(f"energy: the run of {config.system} has {made.energy}, which opens by itself; leave it out")
    return made.energy


def _new_space(
    config: RunConfig, molecule: "Molecule", energy: "OpenEnergy", ledger: Ledger
) -> "tuple[Molecule, Space]":
    """The coordinates of a new run, and the molecule with the reference structure that they are built on.

    Another energy than the force field first relaxes the structure. If it has no forces, the coordinates are those of
    the force field, which is not the target, so that its evaluations are not counted.
    """
    from boltzport.targets.boltzmann import CountedEnergy, build_space, open_energy, relaxed

    if config.layout is LayoutKind.PAPER or energy.backend in ("tensors", "openmm"):
        return molecule, build_space(config.layout, molecule, CountedEnergy(energy.evaluate, ledger))
    if not energy.evaluate.differentiable:
        _LOG.info("the energy has no forces: the coordinates are those of the force field")
        with open_energy(molecule, compiled=False) as field:
            return molecule, build_space(config.layout, molecule, field.evaluate)
    counted = CountedEnergy(energy.evaluate, ledger)
    molecule = relaxed(molecule, counted)
    return molecule, build_space(config.layout, molecule, counted)


def build_method(
    config: RunConfig, target: OpenTarget, flow: Flow, reference: "Reference | None" = None
) -> Method[Any]:
    """Build the method of a run, with its training samples if it needs them.

    Args:
        config: Configuration of the run.
        target: Target of the run.
        flow: Flow to train.
        reference: Reference that the user passed; by default, the one that the settings name.

    Raises:
        InputError: There are no samples, or they belong to another target.
    """
    entry = method_entry(config.method)
    samples = training_samples(config, target.counted, flow, reference) if entry.needs_samples else None
    return entry.build(config.settings, samples)
