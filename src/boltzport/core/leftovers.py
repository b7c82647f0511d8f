"""Temporary files of processes that were killed: named after their process, and removed by the next one."""

import os
import re
import shutil
import socket
from contextlib import suppress
from pathlib import Path

_UNFINISHED = re.compile(r"\.boltzport-(?P<host>.+)-(?P<process>\d+)-.*")


def temporary_name(end: str = "") -> str:
    """Start of the name of a temporary file or folder of this process."""
    return f".boltzport-{socket.gethostname()}-{os.getpid()}-{end}"


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders of processes of this machine that have ended."""
    with suppress(OSError):
        for path in folder.iterdir():
            found = _UNFINISHED.fullmatch(path.name)
            if found is None or found["host"] != socket.gethostname() or _alive(int(found["process"])):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
