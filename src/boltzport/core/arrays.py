"""Read NPZ files, which may be damaged or of another program."""

from pathlib import Path

import numpy as np

from boltzport.core.errors import InputError


def read_arrays(path: Path, *, what: str) -> dict[str, np.ndarray]:
    """Read all arrays of an NPZ file, by name.

    Args:
        path: The file.
        what: What to do if it cannot be read, for the message.

    Raises:
        InputError: It cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.savez(Path(folder) / "a.npz", weights=np.ones(2))
        ...     read_arrays(Path(folder) / "a.npz", what="write it again")
        {'weights': array([1., 1.])}
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # the archive's reader raises arbitrary exceptions for damaged files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} cannot be read: {reason}; {what}") from error
