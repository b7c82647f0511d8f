"""Compare what a user asks for with the memory, the disk and the time that there are."""

import os
import shutil
from pathlib import Path

from boltzport.core.errors import InputError

MOST = 1e11
"""Number of evaluations that take days on any machine."""
UNITS = ("bytes", "KB", "MB", "GB", "TB", "PB", "EB")


def check_memory(needed: float | int, what: str) -> None:
    """Check that something fits into the memory.

    Args:
        needed: Size in bytes.
        what: What is asked for, for the message.

    Raises:
        InputError: It is larger than the memory of this machine.
    """
    memory = _memory()
    if memory is not None and needed > memory:
        raise InputError(
            f"{what} needs about {size_in_words(needed)} of memory, and this machine has {size_in_words(memory)}; ask "
            "for less, or add --yes to try anyway"
        )


def check_disk(needed: float | int, folder: Path, what: str) -> None:
    """Check that something fits on the disk of a folder.

    Args:
        needed: Size in bytes.
        folder: Folder that it is written to.
        what: What is asked for, for the message.

    Raises:
        InputError: It is larger than the free space.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if needed > free:
        raise InputError(
            f"{what} needs about {size_in_words(needed)} of disk, and {folder} has {size_in_words(free)} free; ask for "
            "less, or add --yes to try anyway"
        )


def check_time(evaluations: float | int, what: str) -> None:
    """Check that a number of evaluations can come to an end.

    Raises:
        InputError: It would take days on any machine.
    """
    if evaluations > MOST:
        days = evaluations / 1e6 / 86400
        long = f"{days:.0f} days" if days < 1000 else f"{days / 365:.2g} years"
        raise InputError(
            f"{what} means {evaluations:.2g} evaluations of the target, {long} at a million a second; ask for less, or "
            "add --yes to start anyway"
        )


def size_in_words(size: float | int) -> str:
    """A number of bytes in words.

    Example:
        >>> size_in_words(512), size_in_words(3.2e9), size_in_words(1e30)
        ('512 bytes', '3.2 GB', '1e+12 EB')
    """
    place = 0
    size = float(size)
    while size >= 1000 and place < len(UNITS) - 1:
        size, place = size / 1000, place + 1
    return f"{size:.3g} {UNITS[place]}"


def _memory() -> float | None:
    """Memory of this machine in bytes; None if it is not known."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
