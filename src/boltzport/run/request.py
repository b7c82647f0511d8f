"""From what a user asks for to a configuration, and to the folder of its run."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from boltzport import __version__
from boltzport.errors import InputError
from boltzport.flow import FlowConfig
from boltzport.methods import ForwardKLConfig, MethodConfig, method_entry
from boltzport.run.build import kind_of
from boltzport.run.config import MoleculeConfig, RunConfig
from boltzport.run.flow_setting import chosen_kind, with_flow
from boltzport.run.presets import LayoutKind, Preset, recipe


@dataclass(frozen=True, kw_only=True)
class _Coordinates:
    """What may be set of the coordinates, beside the flow and the method."""

    layout: LayoutKind


def request(
    system: str,
    *,
    method: str = "cmt",
    preset: Preset = Preset.LAPTOP,
    settings: Sequence[str] = (),
    seed: int = 0,
    budget: float | None = None,
    molecule: MoleculeConfig | None = None,
) -> RunConfig:
    """The resolved configuration of a training.

    Args:
        system: Toy or molecule.
        method: How to train.
        preset: What the settings begin with.
        settings: `key=value`, of the flow or of the method, or the layout, or the kind of flow (`flow=couplings`).
        seed: Of the run.
        budget: Most evaluations of the target.
        molecule: How the molecule is made.

    Raises:
        InputError: A setting is unknown or out of its range; the preset does not know the system; a toy is asked to be
            a molecule.
    """
    kind = kind_of(system)
    if budget is not None and not 0 < budget < math.inf:
        raise InputError(f"budget: expected a number of evaluations above 0, got {budget:g}")
    if kind == "toy" and molecule not in (None, MoleculeConfig()):
        raise InputError(f"{system} is a toy: it has no force field, constraints, pH or temperature; leave them out")
    name = _full_name(system) if kind == "molecule" else system
    entry = method_entry(method)
    made = recipe(name, preset, method)
    flow_kind = chosen_kind(settings, default=made.kind)
    given = {"method": made.methods[flow_kind], "coordinates": _Coordinates(layout=made.layout)}
    parts = with_flow(given, settings, kind=made.kind, sizes=made.flows)
    flow: FlowConfig = parts["flow"]
    layout: LayoutKind = parts["coordinates"].layout
    if (layout is LayoutKind.OWN) != (made.layout is LayoutKind.OWN):
        others = " or ".join(other for other in LayoutKind if other is not LayoutKind.OWN)
        raise InputError(f"layout: a toy has its own, and a molecule {others}; got {layout} for {system}")
    chosen = _placed(parts["method"])
    return RunConfig(
        system=name,
        kind=kind,
        method=method,
        preset=preset.value,
        seed=seed,
        version=__version__,
        command=shlex.join(["boltzport", *sys.argv[1:]]),
        layout=layout,
        molecule=molecule or MoleculeConfig(),
        flow=flow,
        settings=chosen if budget is None else entry.within(chosen, budget),
    )


def default_directory(config: RunConfig, *, resume: bool) -> Path:
    """The folder of a run that was given none: a new one, or with `resume` the newest that is there."""
    stem = f"{Path(config.system).stem if config.kind == 'molecule' else config.system}-{config.method}"
    stem += f"-{config.preset}-seed{config.seed}"
    number = 1
    while (path := Path("runs") / (stem if number == 1 else f"{stem}-{number}")).exists():
        newest, number = path, number + 1
    return newest if resume and number > 1 else path


def _placed(settings: MethodConfig) -> MethodConfig:
    """Settings that find their samples from wherever the run is resumed."""
    if isinstance(settings, ForwardKLConfig) and settings.data:
        return replace(settings, data=str(Path(settings.data).resolve()))
    return settings


def _full_name(system: str) -> str:
    from boltzport.molecule import SYSTEMS

    return next((entry.name for entry in SYSTEMS if system in (entry.name, entry.alias)), system)
