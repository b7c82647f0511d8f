"""Another description of a run's target, on the coordinates of its flow: another temperature, energy or density."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from boltzport.core.errors import InputError
from boltzport.experiments.build import GIVEN, Given, OpenTarget, open_target
from boltzport.experiments.config import MoleculeConfig, RunConfig
from boltzport.experiments.inputs import with_inputs
from boltzport.targets import CountedTarget, Target

if TYPE_CHECKING:
    from boltzport.energies import EnergyLike
    from boltzport.experiments.model import Model
    from boltzport.molecules import Molecule
    from boltzport.targets.boltzmann import HarmonicMap

LENGTH = 1e-6
"""Largest difference in nm between two lengths of a constrained bond that are the same."""


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What changes; None for what stays.

    Attributes:
        temperature: Temperature in K.
        forcefield: Names of OpenMM's XML force fields, or XML files; empty for no change.
        energy: Energy of the molecule instead of its force field.
        molecule: The same molecule with other forces, from an `openmm.System`.
        density: Another density on the same coordinates, for a target that is not a molecule.
    """

    temperature: float | None = None
    forcefield: tuple[str, ...] = ()
    energy: "EnergyLike | None" = None
    molecule: "Molecule | None" = None
    density: Target | None = None


def redescribed(model: "Model", changes: Changes) -> tuple[RunConfig, OpenTarget]:
    """The target of a model in another description, on the coordinates of its flow, and its configuration.

    Local coordinates of a molecule are in units of their thermal fluctuations, so that those of another temperature
    are wider by the square root of the ratio of the temperatures.

    Raises:
        InputError: Nothing changes, or the constraints, the molecule or the coordinates do.
    """
    if changes == Changes():
        raise InputError("expected another temperature, force field or energy to retarget to")
    if model.config.kind != "molecule":
        return _other_density(model, changes)
    if changes.density is not None:
        raise InputError(f"density: {model.config.system} is a molecule; expected a temperature, force field or energy")
    if changes.molecule is not None and changes.forcefield:
        raise InputError("molecule and forcefield: expected one of them, since a molecule has its forces")
    from boltzport.energies import check_energy_name, name_of
    from boltzport.targets.boltzmann import BoltzmannTarget, Space

    former, target = model.molecule, model.target.counted.target
    assert former is not None
    assert isinstance(target, BoltzmannTarget)
    if changes == Changes(temperature=former.temperature):
        raise InputError(f"temperature: {model.config.system} is at {former.temperature:g} K already; expected another")
    molecule = _molecule(model, former, changes)
    check_same(former, molecule)
    made = model.config.molecule
    energy, name, settings = changes.energy, made.energy, made.energy_settings
    if isinstance(energy, str):
        check_energy_name(energy)
        energy, name, settings = None, energy, None
    elif energy is not None:
        name, settings = GIVEN, name_of(energy)
    elif changes.forcefield or changes.molecule is not None:
        name = settings = None
    elif name == GIVEN and model.target.energy is not None:
        energy = model.target.energy.evaluate
    how = {"temperature": molecule.temperature, "source": "system"}
    if molecule.made is not None:
        how = {**molecule.made._asdict(), "source": None}
    config = replace(model.config, molecule=MoleculeConfig(**how, energy=name, energy_settings=settings))  # type: ignore[arg-type]
    space = Space(layout=target.layout, map=_widened(target.map, molecule.temperature / former.temperature))
    opened = open_target(config, given=Given(molecule=molecule, energy=energy), space=space)
    return config, opened


def in_words(config: RunConfig, target: OpenTarget) -> str:
    """The description of a target: force field or energy, and temperature."""
    molecule = target.molecule
    if molecule is None:
        return target.counted.target.name
    names = [name.removesuffix(".xml") for name in molecule.forcefield] or ["an OpenMM System"]
    energy = {None: " + ".join(names), GIVEN: "a user's energy"}.get(config.molecule.energy, config.molecule.energy)
    return f"{energy}, {molecule.temperature:g} K"


def check_same(former: "Molecule", other: "Molecule") -> None:
    """Check that two molecules differ in their forces or their temperature only.

    Raises:
        InputError: They are different molecules, or have other constraints or coordinates; the message says which.
    """
    for what in ("elements", "bonds"):
        if getattr(former.topology, what) != getattr(other.topology, what):
            raise InputError(
                f"{other.name} ({other.topology.n_atoms} atoms) is another molecule than {former.name} "
                f"({former.topology.n_atoms} atoms): their {what} differ; expected the same atoms in the same order"
            )
    before, after = former.constrained, other.constrained
    names = former.topology.names
    changed = [
        f"{names[i]}-{names[j]}"
        for i, j in sorted({*before, *after})
        if abs(before.get((i, j), -1.0) - after.get((i, j), -1.0)) > LENGTH
    ]
    if changed:
        raise InputError(
            f"the constraints change: the run has {len(before)} constrained bonds, the new description {len(after)}; "
            f"{len(changed)} differ in presence or length, the first is {changed[0]}. The new density is on another "
            "space; train it from the start, or choose a force field with the same constraints"
        )
    if former.coordinates.columns != other.coordinates.columns:
        pairs = zip(former.coordinates.columns, other.coordinates.columns, strict=True)
        first = next(one.name for one, two in pairs if one != two)
        raise InputError(f"the coordinate {first} changes its range or its atoms; train the new description instead")


def _molecule(model: "Model", former: "Molecule", changes: Changes) -> "Molecule":
    """The molecule with its new forces and temperature."""
    from boltzport.molecules import Molecule

    temperature = former.temperature if changes.temperature is None else changes.temperature
    if changes.molecule is not None:
        other = changes.molecule
        return other if changes.temperature is None else other.at_temperature(temperature)
    if not changes.forcefield:
        return former.at_temperature(temperature)
    if former.made is None:
        raise InputError(
            f"forcefield: {model.config.system} is a user's openmm.System, whose template is not known; expected "
            "molecule=boltzport.Molecule(system, topology=..., positions=...) with the new forces"
        )
    made = former.made
    # A run holds copies of the files that its molecule was built from.
    kept = model.config if model.directory is None else with_inputs(model.config, model.directory)
    molecule = Molecule(
        kept.system,
        forcefield=changes.forcefield,
        constraints=made.constraints,
        ph=made.ph,
        keep=made.keep,
        add_hydrogens=made.add_hydrogens,
        temperature=temperature,
    )
    molecule.name = former.name
    return molecule


def _widened(map_: "HarmonicMap | None", ratio: float) -> "HarmonicMap | None":
    return map_ if map_ is None or ratio == 1.0 else map_.widened(ratio**0.5)


def _other_density(model: "Model", changes: Changes) -> tuple[RunConfig, OpenTarget]:
    name = model.config.system
    if changes.density is None or changes != Changes(density=changes.density):
        raise InputError(
            f"{name} is not a molecule and has no temperature, force field or energy; expected density=..., such as "
            "boltzport.Density(lambda x: log_density(x) / 1.5, layout)"
        )
    density = changes.density
    if density.layout != model.flow.layout:
        raise InputError(f"density: expected the coordinates of {name}, got those of {density.name}; use its layout")
    config = replace(model.config, system=density.name, kind="density")
    return config, OpenTarget(counted=CountedTarget(density))
