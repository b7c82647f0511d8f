"""A training on disk: the files written after each step, and read to resume."""

import io
import logging
import logging.handlers
import math
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from boltzport.analysis.metrics import Origin
from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, read_json, write_atomically, write_json
from boltzport.core.parallel import ranks
from boltzport.core.records import from_plain
from boltzport.experiments.display import say_line
from boltzport.training import Checkpoint, Status, Training

_LOG = logging.getLogger("boltzport")


def keep_step(training: Training, directory: RunDirectory) -> None:
    """Write a finished step; all ranks make the checkpoint, and rank 0 writes it.

    The flow is written first: a flow one step ahead of its checkpoint is usable, one behind it is not. The checkpoint
    also holds the row of the metrics, so an interruption at any moment loses at most the current step.

    Raises:
        RunError: A file cannot be written, for example because the disk is full.
    """
    checkpoint = training.checkpoint()
    if not ranks().leads:
        return
    flow = training.state.result().to_bytes()
    write_atomically(directory.flow, lambda file: file.write(flow))
    _write_checkpoint(checkpoint, directory)
    directory.append(training.rows[-1])
    write_json(directory.ledger, training.ledger.to_json())
    keep_status(training.status("running"), directory)


def keep_status(status: Status, directory: RunDirectory) -> None:
    """Write the status of a training."""
    if status.message:
        _LOG.info("%s", status.message)
    write_json(directory.status, status.to_json())


def read_status(directory: RunDirectory) -> Status | None:
    """The status of a training; None if there is none."""
    if not directory.status.is_file():
        return None
    record = read_json(directory.status)
    known = {field.name for field in fields(Status)}
    plain: dict[str, Any] = {"state": "unknown"} | {name: value for name, value in record.items() if name in known}
    try:
        return from_plain(Status, plain)
    except TypeError as error:
        raise InputError(f"{directory.status} is damaged: {error}; delete it") from error


def keep_origin(origin: Origin | None, directory: RunDirectory) -> None:
    """Write what a retargeted model was before."""
    if origin is not None:
        write_json(directory.origin, origin.to_json())


def read_origin(directory: RunDirectory) -> Origin | None:
    """What a retargeted model was before; None for another model.

    Raises:
        InputError: The record is damaged.
    """
    if not directory.origin.is_file():
        return None
    # JSON has no NaN; only these can be missing.
    record = {
        name: math.nan if value is None and name not in ("pareto_k", "ess_matched") else value
        for name, value in read_json(directory.origin).items()
    }
    try:
        return from_plain(Origin, record)
    except TypeError as error:
        raise InputError(f"{directory.origin} is damaged: {error}; restore it") from error


def read_checkpoint(directory: RunDirectory) -> Checkpoint | None:
    """The checkpoint to resume from; None if the training was interrupted in its first step and starts again.

    Raises:
        InputError: There is a trained flow without a checkpoint, or the checkpoint cannot be read.
    """
    damaged = []
    for path in (directory.checkpoint, directory.former):
        if not path.is_file():
            continue
        try:
            checkpoint: Checkpoint = torch.load(path, weights_only=True, map_location="cpu")
            missing = {"state", "generator", "ledger", "row", "seconds", "threads"} - set(checkpoint)
            if missing:
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
        except Exception:  # the unpickler can raise anything
            damaged.append(path)
            continue
        if damaged:
            _LOG.warning(
                "%s is damaged; the run goes on from the one before, step %s", damaged[0], checkpoint["row"]["step"]
            )
            # Or else the next step would put it in the place of the good one.
            damaged[0].unlink()
        return checkpoint
    if damaged:
        raise InputError(
            f"{' and '.join(str(path) for path in damaged)}: damaged, so that the run cannot be resumed; its flow can "
            f"still be used (`boltzport evaluate {directory.path}`), or train again in another directory"
        )
    status = read_status(directory)
    if status is not None and status.state == "done":
        raise InputError(f"{directory.path} has a trained flow and no checkpoint: there is nothing to resume")
    steps = len(list(directory.rows()))
    if steps:
        raise InputError(
            f"{directory.path} has {steps} finished steps and no {directory.checkpoint.name}: it cannot be resumed; "
            "restore the checkpoint, or train again in another directory"
        )
    directory.metrics.unlink(missing_ok=True)
    return None


def _write_checkpoint(checkpoint: Checkpoint, directory: RunDirectory) -> None:
    """Write a checkpoint, and keep the one before."""
    content = io.BytesIO()
    torch.save(checkpoint, content)
    if directory.checkpoint.is_file():
        try:
            directory.former.unlink(missing_ok=True)
            os.link(directory.checkpoint, directory.former)
        except OSError:  # not every file system has links; the new checkpoint is what matters
            with suppress(OSError):
                shutil.copyfile(directory.checkpoint, directory.former)
    write_atomically(directory.checkpoint, lambda file: file.write(content.getbuffer()))


class _LogFile(logging.FileHandler):
    """A log that ends where the disk is full: the files that matter say so themselves."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Leave a message out that cannot be written."""
        del record

    def close(self) -> None:
        """Close the file, without what could not be written."""
        with suppress(OSError):
            super().close()


class Log(logging.handlers.MemoryHandler):
    """Messages of a run, held in memory until its file can be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(capacity=1000, flushLevel=logging.CRITICAL + 1)
        self._path = path

    def begin(self) -> None:
        """Write to the file from now on, beginning with what is held."""
        file = _LogFile(self._path, delay=True)
        file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.setTarget(file)
        self.flush()
        self.flushLevel = logging.NOTSET

    def close(self) -> None:
        """Close the file, if there is one."""
        target = self.target
        super().close()
        if target is not None:
            target.close()


class _Aloud(logging.Handler):
    """Warnings on standard error, the first of each kind: a batch of an expensive energy may have one every time."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Say a warning."""
        if record.msg not in self._said:
            self._said.add(record.msg)
            say_line(f"warning: {record.getMessage()}")


@contextmanager
def logging_to(path: Path, *, aloud: bool = False) -> Iterator[Log]:
    """Also log to a file while the block runs, from the call of `begin` on.

    Args:
        path: The file.
        aloud: Whether warnings are also written to standard error.
    """
    log = Log(path)
    level, said = _LOG.level, _Aloud()
    _LOG.addHandler(log)
    if aloud:
        _LOG.addHandler(said)
    _LOG.setLevel(logging.INFO)
    try:
        yield log
    finally:
        _LOG.removeHandler(log)
        _LOG.removeHandler(said)
        _LOG.setLevel(level)
        log.close()


@contextmanager
def terminations() -> Iterator[None]:
    """Treat a request to terminate (SIGTERM, from a scheduler) like Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    former = None
    # Signal handlers can only be set in the main thread.
    with suppress(ValueError):
        former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if former is not None:
            signal.signal(signal.SIGTERM, former)
