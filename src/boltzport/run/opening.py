"""Opening a run that is there, to evaluate or sample it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from boltzport.flow import Flow
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


@contextmanager
def open_run(path: Path) -> Iterator[OpenRun]:
    """Load a run; what its energy needs is closed afterwards.

    Raises:
        InputError: The folder is no run, or holds no flow yet.
    """
    directory = RunDirectory(path)
    config = RunConfig.load(directory.require(directory.config, "boltzport train"))
    flow = Flow.load(directory.require(directory.flow, "boltzport train"))
    with open_target(config, layout=flow.layout, ledger=Ledger()) as target:
        yield OpenRun(directory=directory, config=config, flow=flow, target=target)
