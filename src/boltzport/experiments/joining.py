"""One training on several processes: what rank 0 tells the others, and their part of it.

Rank 0 trains as a single process does: it builds the target and writes the run directory. The others need neither files
nor settings of their own, only what the user passed as objects.
"""

import io
import json
import logging
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch

from boltzport.core.files import RunDirectory
from boltzport.core.parallel import ranks
from boltzport.experiments.build import Given, OpenTarget, build_method, open_target
from boltzport.experiments.config import RunConfig
from boltzport.experiments.inputs import keep_inputs
from boltzport.flows import Flow, build_flow, load_flow
from boltzport.targets import Ledger
from boltzport.training import Checkpoint, Training

_LOG = logging.getLogger("boltzport")
_LEDGER, _WHERE = "known-evaluations.json", "where.json"


class Joined(NamedTuple):
    """The part of a process in a training that rank 0 leads.

    Attributes:
        config: Configuration of the run.
        training: The training.
        target: Its target.
        where: Directory of the run; None if it is trained in memory.
    """

    config: RunConfig
    training: Training
    target: OpenTarget
    where: RunDirectory | None


def tell(
    config: RunConfig,
    target: OpenTarget,
    flow: Flow,
    ledger: Ledger,
    *,
    saved: Checkpoint | None,
    start: Flow | None,
    directory: RunDirectory | None,
) -> None:
    """Tell the other ranks what is trained; do nothing if there are none.

    Args:
        config: Configuration of the run.
        target: Its target.
        flow: Flow to train, which has the target's layout.
        ledger: The evaluations so far.
        saved: Checkpoint to resume from.
        start: Trained flow that the training starts from, if any.
        directory: Run directory; None for a training in memory.
    """
    if ranks().alone:
        return
    with TemporaryDirectory() as folder:
        parcel = RunDirectory(Path(folder))
        config.save(parcel.config)
        target.save(parcel)
        if directory is None:
            keep_inputs(config, parcel)
        elif directory.checksums.is_file():
            shutil.copyfile(directory.checksums, parcel.checksums)
            if directory.inputs.is_dir():
                shutil.copytree(directory.inputs, parcel.inputs)
        flow.save(parcel.flow)
        if start is not None:
            start.save(parcel.start)
        if saved is not None:
            torch.save(saved, parcel.checkpoint)
        (parcel.path / _LEDGER).write_text(json.dumps(ledger.to_json()))
        (parcel.path / _WHERE).write_text(json.dumps(None if directory is None else str(directory.path)))
        ranks().told(_packed(parcel.path))


@contextmanager
def join(given: Given | None = None, *, device: torch.device | None = None) -> Iterator[Joined]:
    """Join the training that rank 0 leads, as another rank.

    Args:
        given: Objects passed by the user.
        device: Device of the flow of this process; the processor by default.
    """
    with _quiet(), TemporaryDirectory() as folder:
        parcel = RunDirectory(Path(folder))
        with zipfile.ZipFile(io.BytesIO(ranks().told())) as packed:
            packed.extractall(parcel.path)
        config = RunConfig.load(parcel.config)
        where = json.loads((parcel.path / _WHERE).read_text())
        ledger = Ledger(json.loads((parcel.path / _LEDGER).read_text()))
        saved: dict[str, Any] | None = None
        if parcel.checkpoint.is_file():
            saved = torch.load(parcel.checkpoint, weights_only=True, map_location="cpu")
        # Rank 0 has counted the evaluations of the startup.
        target = open_target(config, saved=parcel, ledger=Ledger(), given=given, record=_record(where))
        generator, compiled = torch.Generator().manual_seed(config.seed), config.kind != "density"
        start = load_flow(parcel.start, compiled=compiled) if parcel.start.is_file() else None
        flow: Flow = (
            build_flow(target.counted.layout, config.flow, generator=generator, compiled=compiled)
            if start is None
            else load_flow(parcel.start, compiled=compiled)
        )
        method = build_method(config, target, flow, None if given is None else given.reference)
        training = Training(
            method, flow, target.counted, generator=generator, ledger=ledger, saved=saved, start=start, device=device
        )
        yield Joined(config, training, target, None if where is None else RunDirectory(Path(where)))


class Exchanges:
    """What the ranks have told each other, step by step.

    Args:
        gradient_steps: Number of gradient steps so far.
    """

    def __init__(self, gradient_steps: int) -> None:
        self._begin(gradient_steps)

    def _begin(self, gradient_steps: int) -> None:
        self._gradient_steps, self._traffic = gradient_steps, ranks().traffic
        self._time, self._processor = time.monotonic(), time.process_time()

    def since(self, gradient_steps: int) -> str:
        """The exchanges since the last call, in words; empty if there are no other ranks."""
        if ranks().alone:
            return ""
        spent, took = ranks().traffic.minus(self._traffic), time.monotonic() - self._time
        worked, steps = time.process_time() - self._processor, gradient_steps - self._gradient_steps
        self._begin(gradient_steps)
        return (
            f"; {steps} gradient steps in {took:.2f} s ({worked:.2f} s of this processor), {spent.calls} exchanges of "
            f"{spent.sent / 1e6:.2f} MB, {spent.seconds:.2f} s with waiting"
        )


def _packed(folder: Path) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return content.getvalue()


def _record(where: str | None) -> Path | None:
    """File of this rank's evaluations of an expensive energy: beside that of rank 0, if the directory is seen here."""
    if where is None or not Path(where).is_dir():
        return None
    record = RunDirectory(Path(where)).energies
    return record.with_name(f"{record.stem}.{ranks().rank}{record.suffix}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave it to rank 0 to log what all ranks notice."""
    level = _LOG.level
    _LOG.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _LOG.setLevel(level)
