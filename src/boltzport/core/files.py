"""Run directories, whose files are either complete or absent, whatever happens while they are written."""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from boltzport.core.errors import InputError, RunError
from boltzport.core.leftovers import temporary_name

Row = dict[str, float | int | None]


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace a file atomically: the old one stays until the new one, filled by `write`, is on disk.

    Raises:
        InputError: There is no such directory, or the path is one.
        RunError: The file cannot be written, for example because the disk is full.
    """
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise InputError(f"{path} cannot be written: it is a directory; expected the name of a file")
    unfinished = path.with_name(temporary_name(path.name))
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
        raise RunError(f"{path} cannot be written: {error.strerror or error}; the old file is unchanged") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    write_atomically(path, lambda file: file.write(text.encode()))


def write_json(path: Path, record: object) -> None:
    """Write a JSON file atomically; numbers that are not finite become null."""
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


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        InputError: The file cannot be read, or is no JSON object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} is not JSON: {reason}; it is damaged") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(found).__name__}; it is damaged")
    return found


class RunDirectory:
    """The files of a run.

    Args:
        path: The run directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.toml"
        self.metrics = path / "metrics.jsonl"
        self.ledger = path / "ledger.json"
        self.status = path / "status.json"
        self.flow = path / "flow.safetensors"
        self.start = path / "start.safetensors"
        self.origin = path / "origin.json"
        self.coordinates = path / "coordinates.safetensors"
        self.checkpoint = path / "checkpoint.pt"
        self.former = path / "checkpoint.previous.pt"
        self.structure = path / "reference.pdb"
        self.system = path / "system.xml"
        self.molecule = path / "molecule.sdf"
        self.energies = path / "energies.bin"
        self.log = path / "run.log"
        self.evaluation = path / "evaluation.json"
        self.arrays = path / "evaluation.npz"
        self.report = path / "report.html"
        self.figures = path / "figures"
        self.inputs = path / "inputs"
        self.checksums = path / "checksums.json"

    def create(self) -> None:
        """Create the directory.

        Raises:
            InputError: It is not empty, or cannot be created.
        """
        self.check_free()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path} cannot be created: {error.strerror}; choose another directory") from error

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Create the directory, and remove it if the block fails before it has a configuration.

        Raises:
            InputError: It is not empty, or cannot be created.
        """
        existed = self.path.exists()
        self.create()
        try:
            yield
        except BaseException:
            if not self.config.is_file():
                for file in self.path.iterdir():
                    file.unlink()
                if not existed:
                    self.path.rmdir()
            raise

    def check_free(self) -> None:
        """Check that the directory is empty or does not exist.

        Raises:
            InputError: It is not empty.
        """
        try:
            occupied = self.path.exists() and any(self.path.iterdir())
        except OSError as error:
            raise InputError(f"{self.path} cannot be created: {error.strerror}; choose another directory") from error
        if occupied:
            raise InputError(f"{self.path} is not empty; resume the run in it, or choose another directory")

    def require(self, file: Path, command: str) -> Path:
        """Return a file that must exist.

        Raises:
            InputError: It does not exist; the message names the command that makes it.
        """
        if not self.path.exists():
            raise InputError(f"{self.path} does not exist; expected a directory made by `{command}`")
        if not file.is_file():
            raise InputError(f"{self.path} has no {file.name}; expected a directory made by `{command}`")
        return file

    def append(self, row: Row) -> None:
        """Append a row to the metrics.

        Raises:
            RunError: The row cannot be written, for example because the disk is full.
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
        """The rows of the metrics; lines that are damaged or incomplete are skipped."""
        if not self.metrics.is_file():
            return
        try:
            text = self.metrics.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(f"{self.metrics} cannot be read: {error.strerror or error}") from error
        for line in text.splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict):
                    yield row

    def rewind(self, last: Row) -> None:
        """Make a row the last one of the metrics: remove later rows, and add it if it is missing."""
        step = last["step"]
        assert step is not None
        rows = [row for row in self.rows() if row["step"] is not None and row["step"] < step]
        text = "".join(json.dumps(finite(row), allow_nan=False) + "\n" for row in [*rows, last])
        write_atomically(self.metrics, lambda file: file.write(text.encode()))


def _sync_folder(path: Path) -> None:
    # A renamed file is on disk only when its directory is; not every system can open a directory.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
