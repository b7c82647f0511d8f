"""Write frames to a file batch by batch: XTC, DCD and PDB with mdtraj, and NPZ as a stream."""

import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from boltzport.core.errors import InputError
from boltzport.core.trajectories import open_checked
from boltzport.molecules import Molecule

Append = Callable[[np.ndarray], None]
"""Appends frames: positions (frames, atoms, 3) in nm, or coordinates (frames, dimensions) of a toy."""

SUFFIXES = (".xtc", ".dcd", ".pdb", ".npz")
"""Suffixes of the known formats."""
_BLOCK = 2**20
"""Numbers that are copied at once."""
_ANGSTROM = 10.0
"""Angstrom per nm; DCD and PDB files are in angstrom."""


def check_suffix(path: Path, *, molecular: bool) -> str:
    """Check the suffix of a file for frames, and return it.

    Raises:
        InputError: The suffix is unknown, or not .npz for a target that is not a molecule.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"expected a file that ends in {', '.join(SUFFIXES)}, got {path.name!r}")
    if not molecular and suffix != ".npz":
        raise InputError(f"{suffix} is for molecules, and this target is not one; expected a file that ends in .npz")
    return suffix


@contextmanager
def open_frames(path: Path, molecule: Molecule, *, frames: int) -> Iterator[Append]:
    """Open a file to write frames of a molecule batch by batch.

    Args:
        path: Output file, with one of `SUFFIXES`.
        molecule: Molecule, for the names of atoms and residues in PDB.
        frames: Total number of frames, which the header of NPZ needs.
    """
    if path.suffix.lower() == ".npz":
        shape = (frames, molecule.topology.n_atoms, 3)
        with open_array(path, "positions", shape=shape) as append:
            yield append
        return
    # mdtraj is slow to import, so it is imported only to write frames.
    from mdtraj import Topology
    from mdtraj.formats import DCDTrajectoryFile, PDBTrajectoryFile, XTCTrajectoryFile

    def append_dcd(file: Any, positions: np.ndarray) -> None:
        file.write(np.ascontiguousarray(positions * _ANGSTROM, dtype=np.float32))

    if path.suffix.lower() == ".dcd":
        with open_checked(path, DCDTrajectoryFile, append_dcd) as append:
            yield append
        return
    topology = Topology.from_openmm(molecule.openmm_topology)
    written = 0

    def append_xtc(file: Any, positions: np.ndarray) -> None:
        steps = np.arange(written, written + len(positions), dtype=np.int32)
        file.write(np.ascontiguousarray(positions, dtype=np.float32), time=steps.astype(np.float32), step=steps)

    def append_pdb(positions: np.ndarray) -> None:
        nonlocal written
        for frame in positions:
            written += 1
            # The format has four columns for the number of a model; readers ignore it and count models themselves.
            pdb.write(frame * _ANGSTROM, topology, modelIndex=(written - 1) % 9999 + 1)

    if path.suffix.lower() == ".xtc":
        with open_checked(path, XTCTrajectoryFile, append_xtc) as append:

            def counted(positions: np.ndarray) -> None:
                nonlocal written
                append(positions)
                written += len(positions)

            yield counted
        return
    pdb = PDBTrajectoryFile(str(path), "w")
    try:
        yield append_pdb
    finally:
        pdb.close()


@contextmanager
def open_array(path: Path, name: str, *, shape: tuple[int, ...]) -> Iterator[Append]:
    """Open an NPZ file to write one single-precision array in parts along its first axis."""
    dtype = np.dtype(np.float32)
    with zipfile.ZipFile(path, "w") as archive, archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(member, header)

        def append(part: np.ndarray) -> None:
            member.write(np.ascontiguousarray(part, dtype=dtype).tobytes())

        yield append


def add_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Add arrays to an NPZ file, which is created if necessary."""
    with zipfile.ZipFile(path, "a") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def shorten_array(path: Path, frames: int) -> None:
    """Correct the header of an NPZ file of `open_array` that got fewer frames than announced."""
    whole = path.with_name(f"{path.name}.whole")
    path.rename(whole)
    with zipfile.ZipFile(whole) as archive:
        (name,) = archive.namelist()
        with archive.open(name) as member:
            np.lib.format.read_magic(member)
            shape = np.lib.format.read_array_header_2_0(member)[0]
            with open_array(path, name.removesuffix(".npy"), shape=(frames, *shape[1:])) as append:
                while block := member.read(4 * _BLOCK):
                    append(np.frombuffer(block, dtype=np.float32))
    whole.unlink()
