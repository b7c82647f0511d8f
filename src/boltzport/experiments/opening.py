"""Open a run to sample, evaluate or show it."""

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, read_json
from boltzport.experiments.build import Given, open_target
from boltzport.experiments.config import RunConfig
from boltzport.experiments.inputs import check_config
from boltzport.experiments.keeping import read_origin, read_status
from boltzport.experiments.model import Model
from boltzport.flows import load_flow
from boltzport.targets import Ledger, Target
from boltzport.training import Status

if TYPE_CHECKING:
    import torch

    from boltzport.analysis.evaluation import LogZ
    from boltzport.energies import EnergyLike

SHIPPED = Path(str(files("boltzport"))) / "trained"
"""Runs that ship with the package, by the name of their system."""


def run_path(name: str) -> Path:
    """Path of a run directory, or of the trained flow that ships for a system (name, alias or sequence).

    Raises:
        InputError: There is no such directory and no such flow.
    """
    if Path(name).is_dir():
        return Path(name)
    from boltzport.molecules import named_system

    shipped = shipped_systems()
    system = named_system(name)
    if system is not None and system.name in shipped:
        return SHIPPED / system.name
    known = f", or one of {', '.join(shipped)}, whose flow ships with boltzport" if shipped else ""
    raise InputError(f"no such run: {name}; expected a directory made by `boltzport train`{known}")


def is_shipped(path: Path) -> bool:
    """Whether a run directory ships with the package, and must not be written to."""
    return path.parent == SHIPPED


def shipped_systems() -> list[str]:
    """Names of the systems whose trained flow ships with the package."""
    return sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()) if SHIPPED.is_dir() else []


QUALITY = ("samples", "ess", "ess_unclipped", "pareto_k", "log_z", "log_z_error")
"""Metrics that summarise a shipped flow."""


def shipped_quality(system: str) -> dict[str, Any] | None:
    """Metrics of the trained flow that ships for a system; None if there is none."""
    evaluation = RunDirectory(SHIPPED / system).evaluation
    if not evaluation.is_file():
        return None
    found = json.loads(evaluation.read_text())
    return {name: found[name] for name in QUALITY}


def load(
    run: Path | str,
    *,
    energy: "EnergyLike | None" = None,
    density: Target | None = None,
    device: "torch.device | str | None" = None,
) -> Model:
    """Load a trained model.

    Args:
        run: A run directory, or the name of a system whose trained flow ships with boltzport.
        energy: The energy, if the model was trained on your own.
        density: The target, if the model was trained on your own density.
        device: Device of the flow, on which it draws and the target is evaluated; the processor by default.

    Raises:
        InputError: There is no such run, it has no flow yet, or it needs your own energy or density.

    Example:
        >>> load("alanine-dipeptide").molecule
        Molecule('alanine-dipeptide', 22 atoms, 300 K)
    """
    from boltzport.reporting import read_ledger, read_results

    directory = RunDirectory(run_path(str(run)))
    config = RunConfig.load(directory.require(directory.config, "boltzport train"))
    check_config(directory)
    flow = load_flow(directory.require(directory.flow, "boltzport train"), compiled=config.kind != "density")
    flow = flow.to(device)
    counts = read_ledger(directory) or None
    target = open_target(
        config,
        saved=directory,
        ledger=Ledger(counts),
        given=Given(energy=energy, density=density),
        record=None if is_shipped(directory.path) else directory.energies,
    )
    return Model(
        flow=flow,
        target=target,
        config=config,
        status=read_status(directory) or Status(state="running"),
        rows=list(directory.rows()),
        results=read_results(directory),
        origin=read_origin(directory),
        directory=None if is_shipped(directory.path) else directory,
    )


def log_z_of(run: Path | str, system: str) -> "LogZ":
    """The estimate of log Z of another evaluated run.

    Raises:
        InputError: It is a run of another system, or was not evaluated.
    """
    from boltzport.analysis.evaluation import LogZ

    directory = RunDirectory(run_path(str(run)))
    other = RunConfig.load(directory.config)
    if other.system != system:
        raise InputError(f"{run} is a run of {other.system}; expected another run of {system}")
    record = read_json(directory.require(directory.evaluation, f"boltzport evaluate {run}"))
    if not isinstance(record.get("log_z"), float):
        raise InputError(f"{directory.evaluation} has no log Z; evaluate {run} again")
    return LogZ(str(run), record["log_z"], record.get("log_z_error"))
