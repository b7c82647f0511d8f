"""A training on disk: the files written after each step, and read to resume."""

import json
import logging
import logging.handlers
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, write_atomically, write_json
from boltzport.training import Checkpoint, Status, Training

_LOG = logging.getLogger("boltzport")


def keep_step(training: Training, directory: RunDirectory) -> None:
    """Write a finished step.

    The flow is written first: a flow one step ahead of its checkpoint is usable, one behind it is not. The checkpoint
    also holds the row of the metrics, so an interruption at any moment loses at most the current step.

    Raises:
        RunError: A file cannot be written, for example because the disk is full.
    """
    checkpoint, flow = training.checkpoint(), training.state.result().to_bytes()
    write_atomically(directory.flow, lambda file: file.write(flow))
    write_atomically(directory.checkpoint, lambda file: torch.save(checkpoint, file))
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
    record = json.loads(directory.status.read_text())
    known = {field.name for field in fields(Status)}
    return Status(**{name: value for name, value in record.items() if name in known})


def read_checkpoint(directory: RunDirectory) -> Checkpoint | None:
    """The checkpoint to resume from; None if the training was interrupted in its first step and starts again.

    Raises:
        InputError: There is a trained flow without a checkpoint, or the checkpoint cannot be read.
    """
    if directory.checkpoint.is_file():
        try:
            checkpoint: Checkpoint = torch.load(directory.checkpoint, weights_only=True)
        except Exception as error:  # the unpickler can raise anything
            raise InputError(f"{directory.checkpoint} is not a checkpoint: {error}") from error
        return checkpoint
    status = read_status(directory)
    if status is not None and status.state == "done":
        raise InputError(f"{directory.path} has a trained flow and no checkpoint: there is nothing to resume")
    directory.metrics.unlink(missing_ok=True)
    return None


class Log(logging.handlers.MemoryHandler):
    """Messages of a run, held in memory until its file can be written."""

    def __init__(self, path: Path) -> None:
        super().__init__(capacity=1000, flushLevel=logging.CRITICAL + 1)
        self._path = path

    def begin(self) -> None:
        """Write to the file from now on, beginning with what is held."""
        file = logging.FileHandler(self._path, delay=True)
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


@contextmanager
def logging_to(path: Path) -> Iterator[Log]:
    """Also log to a file while the block runs, from the call of `begin` on."""
    log = Log(path)
    level = _LOG.level
    _LOG.addHandler(log)
    _LOG.setLevel(logging.INFO)
    try:
        yield log
    finally:
        _LOG.removeHandler(log)
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
