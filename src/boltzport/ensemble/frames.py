"""Frames to a file, batch after batch: XTC, DCD, PDB through mdtraj, and NPZ written as a stream."""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from boltzport.errors import InputError
from boltzport.molecule import Molecule

Append = Callable[[np.ndarray], None]
"""Takes the next frames: positions (frames, atoms, 3) in nm, or coordinates (frames, dimensions) of a toy."""

SUFFIXES = (".xtc", ".dcd", ".pdb", ".npz")
"""Formats, by the suffix of the file."""
_ANGSTROM = 10.0
"""Angstrom in a nm: the unit of DCD and PDB files."""


def check_suffix(path: Path, *, molecular: bool) -> str:
    """Suffix of a file that frames can be written to.

    Raises:
        InputError: The suffix is none of ours, or the frames are not those of a molecule and only NPZ can hold them.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"expected a file that ends in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not molecular and suffix != ".npz":
        raise InputError(f"{suffix} holds molecules, and this target is none; expected a file that ends in .npz")
    return suffix


@contextmanager
def open_frames(path: Path, molecule: Molecule, *, frames: int) -> Iterator[Append]:
    """A file of frames of a molecule, to be filled batch after batch.

    Args:
        path: A file with one of `SUFFIXES`.
        molecule: Names of atoms and residues, for PDB.
        frames: How many frames will come; NPZ states it before the first of them.
    """
    if path.suffix.lower() == ".npz":
        shape = (frames, molecule.topology.n_atoms, 3)
        with open_array(path, "positions", shape=shape) as append:
            yield append
        return
    # mdtraj loads its readers of some twenty formats; only those who write frames wait for it.
    from mdtraj import Topology
    from mdtraj.formats import DCDTrajectoryFile, PDBTrajectoryFile, XTCTrajectoryFile

    topology = Topology.from_openmm(molecule.openmm_topology)
    written = 0

    def append_xtc(positions: np.ndarray) -> None:
        nonlocal written
        steps = np.arange(written, written + len(positions), dtype=np.int32)
        file.write(np.ascontiguousarray(positions, dtype=np.float32), time=steps.astype(np.float32), step=steps)
        written += len(positions)

    def append_dcd(positions: np.ndarray) -> None:
        file.write(np.ascontiguousarray(positions * _ANGSTROM, dtype=np.float32))

    def append_pdb(positions: np.ndarray) -> None:
        nonlocal written
        for frame in positions:
            written += 1
            # The format has four columns for the number of a model; readers count models and ignore it.
            file.write(frame * _ANGSTROM, topology, modelIndex=(written - 1) % 9999 + 1)

    opener, append = {
        ".xtc": (XTCTrajectoryFile, append_xtc),
        ".dcd": (DCDTrajectoryFile, append_dcd),
        ".pdb": (PDBTrajectoryFile, append_pdb),
    }[path.suffix.lower()]
    file = opener(str(path), "w")
    try:
        yield append
    finally:
        file.close()


@contextmanager
def open_array(path: Path, name: str, *, shape: tuple[int, ...]) -> Iterator[Append]:
    """An NPZ file with one array in single precision that comes in parts along its first axis."""
    dtype = np.dtype(np.float32)
    with zipfile.ZipFile(path, "w") as archive, archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(member, header)

        def append(part: np.ndarray) -> None:
            member.write(np.ascontiguousarray(part, dtype=dtype).tobytes())

        yield append


def add_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Put more arrays into an NPZ file, or make one."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
