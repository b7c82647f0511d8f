"""Resolve the configuration of a run, and its default directory, from what the user asks for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boltzport import __version__
from boltzport.core.errors import InputError
from boltzport.core.layout import LayoutKind
from boltzport.core.preset import Preset
from boltzport.core.records import member_of
from boltzport.core.seeds import check_seed
from boltzport.experiments.build import GIVEN, check_name, kind_of
from boltzport.experiments.config import Kind, MoleculeConfig, RunConfig
from boltzport.experiments.flow_setting import chosen_kind, with_flow
from boltzport.flows import FlowConfig, flow_kind
from boltzport.training.methods import METHODS, ForwardKLConfig, MethodConfig, method_entry
from boltzport.training.presets import recipe


@dataclass(frozen=True, kw_only=True)
class _Coordinates:
    """Setting of the coordinates, in addition to those of the flow and the method."""

    layout: LayoutKind


def request(
    system: str,
    *,
    kind: Kind | None = None,
    method: str | MethodConfig = "cmt",
    preset: Preset | str = Preset.LAPTOP,
    flow: str | FlowConfig | None = None,
    layout: LayoutKind | str | None = None,
    settings: Sequence[str] = (),
    seed: int = 0,
    budget: float | None = None,
    molecule: MoleculeConfig | None = None,
    atoms: int | None = None,
    command: str = "",
) -> RunConfig:
    """The resolved configuration of a training.

    Args:
        system: Name of a toy or of a molecule.
        kind: Kind of the target; its name decides by default.
        method: Name of the method, or its settings; the preset supplies those that are not given.
        preset: Preset that the settings start from.
        flow: Kind of the flow, or its size; the preset's by default.
        layout: Kind of the coordinates; the preset's by default.
        settings: `key=value` of the flow, the method, the layout or the kind of flow (`flow=couplings`).
        seed: Seed of the random generator.
        budget: Maximum number of target evaluations.
        molecule: How the molecule is built.
        atoms: Number of atoms, on which the settings depend; counted by default.
        command: Command line of the user.

    Raises:
        InputError: A setting is unknown or out of its range; the preset does not know the system; a toy gets options
            of a molecule.
    """
    kind = kind or kind_of(system)
    if budget is not None and not 0 < budget < math.inf:
        raise InputError(f"budget: expected a number of evaluations above 0, got {budget:g}")
    if kind != "molecule" and molecule not in (None, MoleculeConfig()):
        raise InputError(f"{system} is a toy: it has no force field, constraints, pH or temperature; leave them out")
    if kind == "molecule":
        check_name(system)
    if molecule is not None and molecule.energy not in (None, GIVEN):
        from boltzport.energies import check_energy_name

        check_energy_name(molecule.energy)
    name = full_name(system) if kind == "molecule" else system
    method_name = method if isinstance(method, str) else _name_of(method)
    entry = method_entry(method_name)
    if kind == "molecule" and atoms is None:
        from boltzport.molecules import count_atoms

        how = molecule or MoleculeConfig()
        atoms = count_atoms(name, ph=how.ph, keep=how.keep, add_hydrogens=how.add_hydrogens)
    made = recipe(name, member_of(Preset, preset, "preset"), method_name, kind=kind, atoms=atoms)
    sizes = made.flows if flow is None or isinstance(flow, str) else made.flows | {flow_kind(flow): flow}
    default = made.kind if flow is None else flow if isinstance(flow, str) else flow_kind(flow)
    chosen = chosen_kind(settings, default=default)
    own = made.methods[chosen] if isinstance(method, str) else method.over(made.methods[chosen])  # type: ignore[arg-type]
    of = made.layout if layout is None else member_of(LayoutKind, layout, "layout")
    parts = with_flow({"method": own, "coordinates": _Coordinates(layout=of)}, settings, kind=default, sizes=sizes)
    of = parts["coordinates"].layout
    if (of is LayoutKind.OWN) != (made.layout is LayoutKind.OWN):
        others = " or ".join(other for other in LayoutKind if other is not LayoutKind.OWN)
        raise InputError(f"layout: a toy has its own, and a molecule {others}; got {of} for {system}")
    placed = _placed(parts["method"])
    return RunConfig(
        system=name,
        kind=kind,
        method=method_name,
        preset=str(preset),
        seed=check_seed(seed),
        version=__version__,
        command=command,
        layout=of,
        molecule=molecule or MoleculeConfig(),
        flow=parts["flow"],
        settings=placed if budget is None else entry.within_budget(placed, budget),
    )


def default_directory(config: RunConfig, *, resume: bool) -> Path:
    """Default directory of a run: a new one, or with `resume` the newest existing one."""
    stem = f"{_stem(config)}-{config.method}"
    stem += f"-{config.preset}-seed{config.seed}"
    number = 1
    while (path := Path("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        newest, number = path, number + 1
    return newest if resume and number > 1 else path


def _stem(config: RunConfig) -> str:
    if config.kind != "molecule":
        return config.system
    from boltzport.molecules import directory_name

    return directory_name(config.system)


def _name_of(settings: MethodConfig) -> str:
    """Name of the method that settings belong to."""
    for name, entry in METHODS.items():
        if type(settings) is entry.config:
            return name
    raise InputError(f"method: expected the name of a method or settings of one, got {type(settings).__name__}")


def _placed(settings: MethodConfig) -> MethodConfig:
    """Settings with an absolute path of the samples, so that the run can be resumed from any directory."""
    if isinstance(settings, ForwardKLConfig) and settings.data:
        return replace(settings, data=str(Path(settings.data).resolve()))
    return settings


def full_name(system: str) -> str:
    """The name of a named system by its alias; other names unchanged."""
    from boltzport.molecules import SYSTEMS

    return next((entry.name for entry in SYSTEMS if system in (entry.name, entry.alias)), system)
