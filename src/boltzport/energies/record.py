"""A file of evaluated energies: append-only, safe against an interruption in the middle of a write.

The file begins with a header that identifies the energy. A record has the digest of the positions, the energy, the
forces if they were computed, and a checksum. A file that ends in the middle of a record is cut before it.
"""

import contextlib
import hashlib
import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError, RunError
from boltzport.core.serving import Evaluated

_MAGIC = b"boltzport energies 1\n"
_HEADER = struct.Struct("<16sI")
_RECORD = struct.Struct("<16s?d")
_CHECKSUM = struct.Struct("<I")
_DIGEST = 16


def digests(positions: np.ndarray) -> list[bytes]:
    """Digest of each configuration of (batch, atoms, 3), from the bytes of its positions in float64."""
    rows = np.ascontiguousarray(positions, dtype="<f8")
    return [hashlib.blake2b(row.tobytes(), digest_size=_DIGEST).digest() for row in rows]


class Record(Closing):
    """Energies that were evaluated, in a file.

    Args:
        path: The file; it is created if there is none.
        identity: Name and settings of the energy; a file of another energy is refused.
        atoms: Number of atoms.

    Attributes:
        writable: False if another process writes to the file; what it holds is used, and nothing is added.

    Raises:
        InputError: The file holds energies of another kind.
        RunError: The file cannot be written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> keys = digests(np.zeros((1, 2, 3)))
        >>> with Record(Path(folder.name) / "energies.bin", identity="zero", atoms=2) as record:
        ...     record.append(keys, Evaluated(np.array([1.5]), None, ""))
        ...     record.find(keys[0], forces=False)
        (1.5, None)
        >>> folder.cleanup()
    """

    def __init__(self, path: Path, *, identity: str, atoms: int) -> None:
        self._path, self._atoms = path, atoms
        self._places: dict[tuple[bytes, bool], int] = {}
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{path} cannot be opened: {error.strerror}") from error
        # Without a buffer, which would hold what a full disk refuses, and fail again when the file is closed.
        self._file: BinaryIO = os.fdopen(descriptor, "r+b", buffering=0)
        self.writable = _locked(self._file)
        try:
            self._end = self._read(_MAGIC + _HEADER.pack(_digest(identity), atoms))
        except (InputError, RunError):
            self._file.close()
            raise
        if self.writable:
            self._file.truncate(self._end)

    def __len__(self) -> int:
        """Number of records."""
        return len(self._places)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def find(self, key: bytes, *, forces: bool) -> tuple[float, np.ndarray | None] | None:
        """Energy of a configuration, with its forces if they are asked for; None if it is not in the file.

        An energy that was evaluated alone is preferred where forces are not asked for: then a repeated run finds the
        same bits as the first.
        """
        place = self._places.get((key, forces))
        if place is None and not forces:
            place = self._places.get((key, True))
        if place is None:
            return None
        self._file.seek(place)
        energy: float = _RECORD.unpack(self._file.read(_RECORD.size))[2]
        if not forces:
            return energy, None
        shape = (self._atoms, 3)
        return energy, np.frombuffer(self._file.read(8 * self._atoms * 3), dtype="<f8").reshape(shape)

    def append(self, keys: Sequence[bytes], found: Evaluated) -> None:
        """Append evaluated configurations.

        Args:
            keys: Digests of the configurations.
            found: Their energies and forces.

        Raises:
            RunError: They cannot be written, for example because the disk is full.
        """
        if not self.writable or not len(keys):
            return
        parts, places, place = [], {}, self._end
        has_forces = found.forces is not None
        for k, key in enumerate(keys):
            data = _RECORD.pack(key, has_forces, float(found.energies[k]))
            if found.forces is not None:
                data += np.ascontiguousarray(found.forces[k], dtype="<f8").tobytes()
            parts += [data, _CHECKSUM.pack(zlib.crc32(data))]
            places[key, has_forces] = place
            place += len(data) + _CHECKSUM.size
        self._write(self._end, b"".join(parts))
        self._end = place
        self._places |= places

    def _read(self, header: bytes) -> int:
        """Read the places of all complete records; returns where they end."""
        self._file.seek(0)
        found = self._file.read(len(header))
        if found == header:
            return self._read_records(len(header))
        if found != header[: len(found)]:
            raise InputError(f"{self._path} holds evaluations of another energy or molecule; move it away")
        # New, or interrupted in the header.
        if self.writable:
            self._write(0, header)
        return len(header)

    def _write(self, place: int, data: bytes) -> None:
        """Write at the end of the file, or leave it as it was."""
        left = memoryview(data)
        try:
            self._file.seek(place)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            with contextlib.suppress(OSError):
                self._file.truncate(place)
            raise RunError(f"{self._path} cannot be written: {error.strerror or error}") from error

    def _read_records(self, place: int) -> int:
        while True:
            head = self._file.read(_RECORD.size)
            if len(head) < _RECORD.size:
                return place
            key, has_forces, _ = _RECORD.unpack(head)
            rest = 8 * self._atoms * 3 if has_forces else 0
            tail = self._file.read(rest + _CHECKSUM.size)
            data = head + tail[:rest]
            if len(tail) < rest + _CHECKSUM.size or _CHECKSUM.unpack(tail[rest:])[0] != zlib.crc32(data):
                return place
            self._places[key, has_forces] = place
            place += len(data) + _CHECKSUM.size


def _digest(identity: str) -> bytes:
    return hashlib.blake2b(identity.encode(), digest_size=_DIGEST).digest()


def _locked(file: BinaryIO) -> bool:
    """Whether this process is the only one that writes to a file; true on systems without locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
