"""A training on disk: the files written after each step, and read to resume."""

import json
import logging
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


def keep_origin(origin: Origin | None, directory: RunDirectory) -> None:
    """Write what a retargeted model was before."""
    if origin is not None:
        write_json(directory.origin, origin.to_json())


def read_origin(directory: RunDirectory) -> Origin | None:
    """What a retargeted model was before; None for another model."""
    return Origin(**json.loads(directory.origin.read_text())) if directory.origin.is_file() else None


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


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Also log to a file while the block runs."""
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = _LOG.level
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        _LOG.setLevel(level)
        handler.close()


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
