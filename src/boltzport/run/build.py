"""From a configuration to a target, a flow and a method. Molecules are imported only where one is asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from boltzport.errors import InputError
from boltzport.flow import Flow, load_flow
from boltzport.methods import Method, method_entry
from boltzport.run.config import RunConfig
from boltzport.run.samples import training_samples
from boltzport.rundir import RunDirectory
from boltzport.targets import TOYS, CountedTarget, Ledger, Purpose, Target, Toy, toy

if TYPE_CHECKING:
    from boltzport.boltzmann import OpenEnergy
    from boltzport.forcefield import Energy
    from boltzport.molecule import Molecule


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a user hands over instead of having it made from the configuration.

    Attributes:
        molecule: The molecule.
        energy: Its energy: positions (batch, atoms, 3) in nm to energies in kJ/mol.
        density: A target that is no molecule.
    """

    molecule: "Molecule | None" = None
    energy: "Energy | Callable[[Tensor], Tensor] | None" = None
    density: Target | None = None


@dataclass(frozen=True, kw_only=True)
class OpenTarget:
    """A target that is ready for use; as a context manager it ends what its energy has started.

    Attributes:
        counted: The target, with its ledger.
        molecule: The molecule, where it is one.
        energy: Its energy, where it is a molecule.
    """

    counted: CountedTarget
    molecule: "Molecule | None" = None
    energy: "OpenEnergy | None" = None

    def __enter__(self) -> "OpenTarget":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes of the energy, where it has any."""
        if self.energy is not None:
            self.energy.close()

    def save(self, directory: RunDirectory) -> None:
        """Write what the target of a molecule was made from: its structure and its coordinates."""
        if self.molecule is None:
            return
        from boltzport.boltzmann import BoltzmannTarget

        assert isinstance(self.counted.target, BoltzmannTarget)
        self.molecule.write_pdb(directory.structure)
        if self.molecule.made is None:
            self.molecule.write_system(directory.system)
        if self.counted.target.map is not None:
            self.counted.target.map.save(directory.coordinates)

    @property
    def toy(self) -> Toy | None:
        """The toy, where it is one."""
        return self.counted.target if isinstance(self.counted.target, Toy) else None


def kind_of(system: str) -> Literal["molecule", "toy"]:
    """Whether a name is that of a toy or of a molecule."""
    return "toy" if system in TOYS else "molecule"


def load_molecule(config: RunConfig, directory: RunDirectory | None = None) -> "Molecule":
    """The molecule of a run.

    Args:
        config: The run.
        directory: Its files; those of a molecule that was an `openmm.System` are read from there.

    Raises:
        InputError: It cannot be made; the message says why.
    """
    from boltzport.molecule import Molecule, read_system

    made = config.molecule
    if made.source is None:
        return Molecule(
            config.system,
            forcefield=made.forcefield,
            constraints=made.constraints,
            ph=made.ph,
            temperature=made.temperature,
        )
    if directory is None:
        raise InputError(f"{config.system} is an openmm.System of a user, which only its run directory holds")
    system, structure = (directory.require(file, "boltzport.train") for file in (directory.system, directory.structure))
    return read_system(system, structure, temperature=made.temperature, name=config.system)


def open_target(
    config: RunConfig,
    *,
    saved: RunDirectory | None = None,
    ledger: Ledger | None = None,
    given: Given | None = None,
) -> OpenTarget:
    """The target of a run.

    Args:
        config: The run.
        saved: Where a flow of the run is there already: its coordinates are taken. Made anew by default.
        ledger: Where evaluations are counted.
        given: What the user hands over.

    Raises:
        InputError: There is no such system, or the run needs what only the user has.
        ParityError: The tensors differ from OpenMM.
    """
    given = given or Given()
    ledger = Ledger() if ledger is None else ledger
    if config.kind == "toy":
        return OpenTarget(counted=CountedTarget(toy(config.system), ledger))
    if config.kind == "density":
        if given.density is None:
            raise InputError(f"{config.system} is a density of a user, which no file holds; hand it over: density=...")
        return OpenTarget(counted=CountedTarget(given.density, ledger))
    if config.molecule.energy is not None and given.energy is None:
        raise InputError(f"the energy of {config.system} is a user's, which no file holds; hand it over: energy=...")
    from boltzport.boltzmann import BoltzmannTarget, HarmonicMap, Space, build_space, open_energy

    molecule = given.molecule or load_molecule(config, saved)
    energy = open_energy(molecule, energy=given.energy)
    if saved is None:
        space = build_space(config.layout, molecule, _Counted(energy.evaluate, ledger))
    else:
        map_ = HarmonicMap.load(saved.coordinates) if saved.coordinates.is_file() else None
        space = Space(layout=load_flow(saved.flow).layout, map=map_)
    target = BoltzmannTarget(molecule, energy.evaluate, space.layout, space.map)
    return OpenTarget(counted=CountedTarget(target, ledger), molecule=molecule, energy=energy)


def build_method(config: RunConfig, target: OpenTarget, flow: Flow) -> Method[Any]:
    """The method of a run, with the samples that it learns from where it needs some.

    Raises:
        InputError: There are no samples, or they are of another target.
    """
    entry = method_entry(config.method)
    samples = training_samples(config, target.counted, flow) if entry.needs_samples else None
    return entry.build(config.settings, samples)


class _Counted:
    """An energy whose evaluations are counted as those before the training."""

    def __init__(self, energy: "Energy", ledger: Ledger) -> None:
        self._energy, self._ledger = energy, ledger

    @property
    def differentiable(self) -> bool:
        return self._energy.differentiable

    def __call__(self, positions: Tensor) -> Tensor:
        gradients = len(positions) if positions.requires_grad else 0
        self._ledger.add(Purpose.STARTUP, evaluations=len(positions), gradients=gradients)
        return self._energy(positions)
