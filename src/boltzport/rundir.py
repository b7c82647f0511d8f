"""Run directories: files that are whole or not there, whatever happens while they are written."""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from boltzport.errors import InputError, RunError

Row = dict[str, float | int | None]


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace a file by what `write` puts into a new one; the old one stays until the new one is on the disk.

    Raises:
        RunError: The disk is full, or does not take the file.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {error.strerror or error}; the former file is untouched") from error


def write_json(path: Path, record: object) -> None:
    """Write a JSON file atomically; what is not finite becomes null."""
    text = json.dumps(finite(record), indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def finite(record: object) -> object:
    """The same record with None for numbers that are not finite, which JSON cannot hold.

    Example:
        >>> finite({"a": [1.0, float("nan")], "b": "x"})
        {'a': [1.0, None], 'b': 'x'}
    """
    if isinstance(record, dict):
        return {key: finite(value) for key, value in record.items()}
    if isinstance(record, list | tuple):
        return [finite(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record


class RunDirectory:
    """The files of a run.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.ledger = path / "ledger.json"
        self.status = path / "status.json"
        self.flow = path / "flow.safetensors"
        self.coordinates = path / "coordinates.safetensors"
        self.checkpoint = path / "checkpoint.pt"
        self.structure = path / "reference.pdb"
        self.system = path / "system.xml"
        self.log = path / "run.log"
        self.evaluation = path / "evaluation.json"
        self.arrays = path / "evaluation.npz"
        self.report = path / "report.html"
        self.figures = path / "figures"

    def create(self) -> None:
        """Make the folder.

        Raises:
            InputError: There is something in it already, or it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            occupied = any(self.path.iterdir())
        except OSError as error:
            raise InputError(f"{self.path} cannot be made: {error.strerror}; choose another folder") from error
        if occupied:
            raise InputError(f"{self.path} is not empty; resume the run in it, or choose another folder")

    def require(self, file: Path, command: str) -> Path:
        """A file that must be there.

        Raises:
            InputError: It is not; the message names the command that makes it.
        """
        if not self.path.exists():
            raise InputError(f"{self.path} does not exist; expected a folder that `{command}` made")
        if not file.is_file():
            raise InputError(f"{self.path} has no {file.name}; expected a folder that `{command}` made")
        return file

    def append(self, row: Row) -> None:
        """Add a row to the metrics.

        Raises:
            RunError: The disk is full, or does not take the row.
        """
        line = json.dumps(finite(row), allow_nan=False) + "\n"
        try:
            with self.metrics.open("a") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"{self.metrics} cannot be written: {error.strerror or error}") from error

    def rows(self) -> Iterator[Row]:
        """The rows of the metrics; a last line that was cut off is skipped."""
        if not self.metrics.is_file():
            return
        for line in self.metrics.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)

    def rewind(self, last: Row) -> None:
        """Make a row the last one of the metrics: later ones go, and it is added where it is missing."""
        step = last["step"]
        assert step is not None
        rows = [row for row in self.rows() if row["step"] is not None and row["step"] < step]
        text = "".join(json.dumps(finite(row), allow_nan=False) + "\n" for row in [*rows, last])
        write_atomically(self.metrics, lambda file: file.write(text.encode()))


def _sync_folder(path: Path) -> None:
    # A renamed file is on the disk only when its folder is; not every system lets a folder be opened.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
