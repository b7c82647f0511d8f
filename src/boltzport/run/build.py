"""From a configuration to a target, a flow and a method. Molecules are imported only where one is asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from boltzport.flow import Flow, load_flow
from boltzport.layout import Layout
from boltzport.methods import Method, method_entry
from boltzport.run.config import RunConfig
from boltzport.run.presets import LayoutKind
from boltzport.run.samples import training_samples
from boltzport.rundir import RunDirectory
from boltzport.targets import TOYS, CountedTarget, Ledger, Purpose, Toy, toy

if TYPE_CHECKING:
    from boltzport.boltzmann import HarmonicMap
    from boltzport.molecule import Molecule


@dataclass(frozen=True, kw_only=True)
class OpenTarget:
    """A target that is ready for use.

    Attributes:
        counted: The target, with its ledger.
        molecule: The molecule, where it is one.
        message: How its energy was checked.
        backend: What evaluates it: `tensors`, `openmm`, or `python` for a toy.
    """

    counted: CountedTarget
    molecule: "Molecule | None"
    message: str
    backend: str

    def save(self, directory: RunDirectory) -> None:
        """Write what the target of a molecule was made from: its structure and its coordinates."""
        from boltzport.boltzmann import BoltzmannTarget

        if isinstance(self.counted.target, BoltzmannTarget):
            self.counted.target.molecule.write_pdb(directory.structure)
            if self.counted.target.map is not None:
                self.counted.target.map.save(directory.coordinates)

    @property
    def toy(self) -> Toy | None:
        """The toy, where it is one."""
        return self.counted.target if isinstance(self.counted.target, Toy) else None


def kind_of(system: str) -> Literal["molecule", "toy"]:
    """Whether a name is that of a toy or of a molecule."""
    return "toy" if system in TOYS else "molecule"


def load_molecule(config: RunConfig) -> "Molecule":
    """The molecule of a run.

    Raises:
        InputError: It cannot be made; the message says why.
    """
    from boltzport.molecule import Constraints, load

    made = config.molecule
    return load(
        config.system,
        forcefield=made.forcefield,
        constraints=Constraints(made.constraints) if made.constraints else None,
        ph=made.ph,
        temperature=made.temperature,
    )


@contextmanager
def open_target(
    config: RunConfig, *, saved: RunDirectory | None = None, ledger: Ledger | None = None
) -> Iterator[OpenTarget]:
    """The target of a run; what its energy needs is closed afterwards.

    Args:
        config: The run.
        saved: Where a flow of the run is there already: its coordinates are taken. Made anew by default.
        ledger: Where evaluations are counted.

    Raises:
        InputError: There is no such system.
        ParityError: The tensors differ from OpenMM.
    """
    ledger = Ledger() if ledger is None else ledger
    if config.kind == "toy":
        yield OpenTarget(counted=CountedTarget(toy(config.system), ledger), molecule=None, message="", backend="python")
        return
    from boltzport.boltzmann import BoltzmannTarget, HarmonicMap, open_energy

    molecule = load_molecule(config)
    with open_energy(molecule) as energy:
        if saved is None:
            layout, map_ = _space(config.layout, molecule, _counted(energy.evaluate, ledger))
        else:
            layout = load_flow(saved.flow).layout
            map_ = HarmonicMap.load(saved.coordinates) if saved.coordinates.is_file() else None
        target = BoltzmannTarget(molecule, energy.evaluate, layout, map_)
        yield OpenTarget(
            counted=CountedTarget(target, ledger), molecule=molecule, message=energy.message, backend=energy.backend
        )


def build_method(config: RunConfig, target: OpenTarget, flow: Flow) -> Method[Any]:
    """The method of a run, with the samples that it learns from where it needs some.

    Raises:
        InputError: There are no samples, or they are of another target.
    """
    entry = method_entry(config.method)
    samples = training_samples(config, target.counted, flow) if entry.needs_samples else None
    return entry.build(config.settings, samples)


def _space(
    kind: LayoutKind, molecule: "Molecule", energy: Callable[[Tensor], Tensor]
) -> "tuple[Layout, HarmonicMap | None]":
    from boltzport.boltzmann import harmonic_space, informed_layout, paper_layout

    if kind is LayoutKind.PAPER:
        return paper_layout(molecule), None
    if kind is LayoutKind.INFORMED:
        return informed_layout(molecule, energy), None
    space = harmonic_space(molecule, energy)
    return space.layout, space.map


def _counted(energy: Callable[[Tensor], Tensor], ledger: Ledger) -> Callable[[Tensor], Tensor]:
    def evaluate(positions: Tensor) -> Tensor:
        gradients = len(positions) if positions.requires_grad else 0
        ledger.add(Purpose.STARTUP, evaluations=len(positions), gradients=gradients)
        return energy(positions)

    return evaluate
