"""Opening a run that is there, to evaluate or sample it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from boltzport.errors import InputError
from boltzport.flow import Flow, load_flow
from boltzport.run.build import OpenTarget, open_target
from boltzport.run.config import RunConfig
from boltzport.rundir import RunDirectory
from boltzport.targets import Ledger


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A trained flow with its target.

    Attributes:
        directory: Its files.
        config: Its configuration.
        flow: The flow to use.
        target: What it was trained on, with an empty ledger.
    """

    directory: RunDirectory
    config: RunConfig
    flow: Flow
    target: OpenTarget


SHIPPED = Path(str(files("boltzport"))) / "trained"
"""Runs that ship with the package, by the name of their system."""


def run_path(name: str) -> Path:
    """The directory of a run: as given, or that of a system (name, alias, sequence) whose trained flow ships.

    Raises:
        InputError: There is no such directory, and no such flow.
    """
    if Path(name).is_dir():
        return Path(name)
    from boltzport.molecule import named_system

    shipped = shipped_systems()
    system = named_system(name)
    if system is not None and system.name in shipped:
        return SHIPPED / system.name
    known = f", or one of {', '.join(shipped)}, whose flow ships with boltzport" if shipped else ""
    raise InputError(f"no such run: {name}; expected a folder that `boltzport train` made{known}")


def shipped_systems() -> list[str]:
    """The systems whose trained flow ships with the package."""
    return sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()) if SHIPPED.is_dir() else []


QUALITY = ("samples", "ess", "ess_unclipped", "pareto_k", "log_z", "log_z_error")
"""What is said of a shipped flow in a line."""


def shipped_figures(system: str) -> dict[str, Any] | None:
    """How good the trained flow of a system is that ships with the package; none where there is none."""
    evaluation = RunDirectory(SHIPPED / system).evaluation
    if not evaluation.is_file():
        return None
    found = json.loads(evaluation.read_text())
    return {name: found[name] for name in QUALITY}


@contextmanager
def open_run(path: Path) -> Iterator[OpenRun]:
    """Load a run; what its energy needs is closed afterwards.

    Raises:
        InputError: The folder is no run, or holds no flow yet.
    """
    directory = RunDirectory(path)
    config = RunConfig.load(directory.require(directory.config, "boltzport train"))
    flow = load_flow(directory.require(directory.flow, "boltzport train"))
    with open_target(config, saved=directory, ledger=Ledger()) as target:
        yield OpenRun(directory=directory, config=config, flow=flow, target=target)
