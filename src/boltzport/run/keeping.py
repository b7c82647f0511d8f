"""A training on the disk: what is written after each step, and what a resumption reads."""

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

from boltzport.errors import InputError
from boltzport.methods import Checkpoint
from boltzport.run.training import Status, Training
from boltzport.rundir import RunDirectory, write_atomically, write_json

_LOG = logging.getLogger("boltzport")


def keep_step(training: Training, directory: RunDirectory) -> None:
    """Write a finished step.

    The flow first: one that is a step ahead of its checkpoint is a good flow, one behind is not. The checkpoint holds
    the row of the metrics as well, so that an interruption at any moment loses no more than the current step.

    Raises:
        RunError: The disk is full, or does not take a file.
    """
    checkpoint, flow = training.checkpoint(), training.state.result().to_bytes()
    write_atomically(directory.flow, lambda file: file.write(flow))
    write_atomically(directory.checkpoint, lambda file: torch.save(checkpoint, file))
    directory.append(training.rows[-1])
    write_json(directory.ledger, training.ledger.to_json())
    keep_status(training.status("running"), directory)


def keep_status(status: Status, directory: RunDirectory) -> None:
    """Write how far a training is."""
    if status.message:
        _LOG.info("%s", status.message)
    write_json(directory.status, status.to_json())


def read_status(directory: RunDirectory) -> Status | None:
    """How far a training is; None where it has not said so."""
    if not directory.status.is_file():
        return None
    record = json.loads(directory.status.read_text())
    known = {field.name for field in fields(Status)}
    return Status(**{name: value for name, value in record.items() if name in known})


def read_checkpoint(directory: RunDirectory) -> Checkpoint | None:
    """The checkpoint to go on from; None where a training was cut in its first step and begins anew.

    Raises:
        InputError: There is a trained flow without a checkpoint, or the checkpoint cannot be read.
    """
    if directory.checkpoint.is_file():
        try:
            checkpoint: Checkpoint = torch.load(directory.checkpoint, weights_only=True)
        except Exception as error:  # whatever the unpickler finds wrong
            raise InputError(f"{directory.checkpoint} is not a checkpoint: {error}") from error
        return checkpoint
    status = read_status(directory)
    if status is not None and status.state == "done":
        raise InputError(f"{directory.path} has a trained flow and no checkpoint: there is nothing to resume")
    directory.metrics.unlink(missing_ok=True)
    return None


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to a file as well while the block runs."""
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
    """A polite request to end (SIGTERM, from a scheduler) is treated as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> Any:
        raise KeyboardInterrupt

    former = None
    # Not in the main thread signals cannot be set.
    with suppress(ValueError):
        former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        if former is not None:
            signal.signal(signal.SIGTERM, former)
