"""Import of a user's trajectory as a reference: read, match atoms, check."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mdtraj
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.belonging import weights_beside
from boltzport.core.errors import InputError
from boltzport.core.hush import hushed
from boltzport.core.units import thermal_energy
from boltzport.ensembles.reference.frames import BATCH, internal_coordinates
from boltzport.ensembles.reference.matching import Named, match_atoms
from boltzport.ensembles.reference.relabel import relabel
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.molecules import Molecule

FLEXIBLE = 0.003
"""Largest deviation in nm of a bond from its constraint, which allows for the rounding of XTC."""
_UNSAFE = (".xtc", ".trr")
"""Suffixes of formats that MDTraj unpacks without checks: a damaged file ends the process, or corrupts its memory."""
_READER = """
import sys, mdtraj
try:
    frames = mdtraj.load(sys.argv[1], top=sys.argv[2]).xyz
except Exception as error:
    sys.exit(str(error) or type(error).__name__)
sys.stdout.buffer.write(frames.astype("f4").tobytes())
"""
"""Program that reads such a file, and writes its positions to standard output."""


def import_trajectory(
    trajectory: Path, topology: Path, molecule: Molecule, energy: Callable[[Tensor], Tensor]
) -> Sampled:
    """Read a trajectory in the molecule's atom order, with energies from our force field.

    Args:
        trajectory: Trajectory in any format that MDTraj reads. XTC rounds positions, so its energies are several kJ/mol
            off.
        topology: PDB or another file with atom names.
        molecule: Molecule of the trajectory.
        energy: Maps positions in nm to energies in kJ/mol.

    Raises:
        InputError: A file cannot be read, or is not of this molecule; the message says what differs.
    """
    positions, named = _read(trajectory, topology)
    weights = weights_beside(trajectory)
    if weights is not None and len(weights) != len(positions):
        raise InputError(
            f"{trajectory} has {len(positions)} frames, the weights beside it are of {len(weights)}; write both again"
        )
    positions = positions[:, match_atoms(molecule.topology, named, positions[0])]
    positions, changed = relabel(molecule, positions)
    _check_constraints(molecule, positions)
    energies = np.concatenate(
        [
            energy(torch.from_numpy(positions[start : start + BATCH].astype(np.float64))).numpy()
            for start in range(0, len(positions), BATCH)
        ]
    )
    if not np.isfinite(energies).all():
        bad = int((~np.isfinite(energies)).sum())
        raise InputError(f"{bad} of {len(energies)} frames of {trajectory} have no finite energy: do atoms overlap?")
    return Sampled(
        positions=positions,
        coordinates=internal_coordinates(molecule, positions),
        reduced_energy=energies / thermal_energy(molecule.temperature),
        chain=np.zeros(len(positions), dtype=np.int64),
        weights=weights,
        details={
            "trajectory": str(trajectory),
            "topology": str(topology),
            "relabelled": changed,
            "weighted": weights is not None,
            "rounded": trajectory.suffix.lower() == ".xtc",
        },
    )


def _read(trajectory: Path, topology: Path) -> tuple[Float[np.ndarray, "frames atoms 3"], Named]:
    for path in (trajectory, topology):
        if not path.is_file():
            raise InputError(f"no such file: {path}")
    try:
        with hushed():
            if trajectory.suffix.lower() in _UNSAFE:
                found = mdtraj.load_topology(str(topology))
                positions = _read_elsewhere(trajectory, topology, found.n_atoms)
            else:
                frames = mdtraj.load(str(trajectory), top=str(topology))
                found, positions = frames.topology, frames.xyz
    except InputError:
        raise
    except Exception as error:  # MDTraj's readers raise arbitrary exceptions for malformed files
        raise InputError(f"{trajectory} with {topology} could not be read: {error or type(error).__name__}") from error
    if len(positions) == 0:
        raise InputError(f"{trajectory} has no frames")
    if not np.isfinite(positions).all():
        raise InputError(f"{trajectory} has positions that are not numbers")
    atoms, residues = list(found.atoms), list(found.residues)
    named = Named(
        elements=tuple(atom.element.atomic_number for atom in atoms),
        names=tuple(atom.name for atom in atoms),
        residues=tuple(atom.residue.index for atom in atoms),
        residue_names=tuple(residue.name for residue in residues),
    )
    return positions, named


def _read_elsewhere(trajectory: Path, topology: Path, atoms: int) -> Float[np.ndarray, "frames {atoms} 3"]:
    """Read positions in a process of their own, whose memory a damaged file may corrupt."""
    done = subprocess.run([sys.executable, "-c", _READER, trajectory, topology], capture_output=True, check=False)
    if done.returncode > 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(said[-1] if said else "MDTraj does not say why")
    if done.returncode < 0 or len(done.stdout) % (12 * atoms):
        raise InputError(f"{trajectory} is damaged: MDTraj crashes on it; write it again")
    return np.frombuffer(done.stdout, dtype=np.float32).reshape(-1, atoms, 3)


def _check_constraints(molecule: Molecule, positions: Float[np.ndarray, "frames atoms 3"]) -> None:
    for (first, second), length in molecule.constrained.items():
        distance = np.linalg.norm(positions[:, first] - positions[:, second], axis=1)
        worst = float(np.abs(distance - length).max())
        if worst > FLEXIBLE:
            label = molecule.topology.label
            raise InputError(
                f"the bond {label(first)}-{label(second)} deviates by up to {worst:.4f} nm from its constraint of "
                f"{length:.4f} nm; if the trajectory has flexible bonds, build the molecule with constraints none"
            )
