"""Reference datasets: frames with energies, weights and provenance, in a directory.

DIR/reference.pdb    topology, in the molecule's atom order
    positions.dcd    frames
    samples.npz      reduced_energy, weights, chain, coordinates
    dataset.json     provenance, diagnostics, checksum of positions.dcd
"""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from mdtraj.formats import DCDTrajectoryFile

from boltzport.core.arrays import read_arrays
from boltzport.core.errors import InputError, RunError
from boltzport.core.files import read_json
from boltzport.core.hush import hushed
from boltzport.core.leftovers import remove_leftovers, temporary_name
from boltzport.core.preset import Preset
from boltzport.core.trajectories import open_checked

if TYPE_CHECKING:
    import torch

    from boltzport.energies import EnergyLike
    from boltzport.ensembles.reference.make import NamedProposal, Sampler
    from boltzport.molecules import Molecule

PDB, POSITIONS, SAMPLES, PROVENANCE = "reference.pdb", "positions.dcd", "samples.npz", "dataset.json"
_ARRAYS = ("coordinates", "reduced_energy", "weights", "chain")
ANGSTROM = 0.1
"""One angstrom in nm."""
BATCH = 50_000
"""Number of frames that are read, written or checked at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Reference:
    """A reference ensemble of a molecule: ground truth to compare a model with.

    `Reference.sample` makes one, `Reference.from_trajectory` imports one, and `Reference.load` reads one that `save` or
    `boltzport reference` wrote.

    Attributes:
        source: The frames, as an array in nm, or the directory that they are read from on access.
        pdb: Reference structure in PDB format.
        coordinates: Internal coordinates in nm and radian, float32.
        reduced_energy: Reduced energies in kT.
        weights: Weights of the frames, with mean 1.
        chain: Index of the independent chain of each frame; frames of a chain are in time order.
        provenance: System, force field, sampler, settings, seed, command, versions, diagnostics.

    Example:
        >>> import tempfile
        >>> frames = np.zeros((2, 22, 3), dtype=np.float32)
        >>> numbers = {"reduced_energy": np.zeros(2), "weights": np.ones(2), "chain": np.array([0, 1])}
        >>> found = Reference(source=frames, pdb="", coordinates=np.zeros((2, 60)), **numbers, provenance={})
        >>> found
        Reference(2 frames in 2 chains, positions in memory)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = found.save(Path(folder))
        ...     len(Reference.load(folder)), Reference.load(folder).positions.shape
        (2, (2, 22, 3))
    """

    source: Float[np.ndarray, "frames atoms 3"] | Path
    pdb: str
    coordinates: Float[np.ndarray, "frames dimensions"]
    reduced_energy: Float[np.ndarray, " frames"]
    weights: Float[np.ndarray, " frames"]
    chain: Int[np.ndarray, " frames"]
    provenance: Mapping[str, object]

    @classmethod
    def sample(
        cls,
        molecule: "Molecule",
        *,
        sampler: "Sampler | str" = "hmc",
        preset: Preset | str = Preset.LAPTOP,
        seed: int = 0,
        samples: int | None = None,
        hottest: float | None = None,
        proposal: "NamedProposal | None" = None,
        energy: "EnergyLike | None" = None,
        command: str = "",
        device: "torch.device | None" = None,
        progress: bool = True,
    ) -> "Reference":
        """Sample a reference of a molecule. Ctrl-C ends the sampling and returns the frames so far.

        The processes of torchrun divide the chains: process 0 returns the frames of all, each of the others its own.

        Args:
            molecule: The molecule.
            sampler: `hmc` is Metropolis-exact and fast on one machine; `openmm` is the paper's replica exchange.
            preset: Length of the sampling: `quick`, `laptop` or `paper`.
            seed: Seed of the random generators.
            samples: Number of frames to keep; the preset's by default.
            hottest: Highest temperature of the sampler `hmc`, as a multiple of the molecule's; the preset's by default.
            proposal: A trained flow that proposes moves, from `boltzport.experiments.flow_proposal`; only for `hmc`.
            energy: Your own energy instead of the molecule's force field; only for the sampler `hmc`.
            command: Command that reproduces the reference, for the provenance.
            device: Device of the chains of `hmc`, and of the flow that proposes; the processor by default.
            progress: Show progress.

        Raises:
            InputError: A setting is wrong.
            RunError: The sampling was interrupted before the first frame.
        """
        from boltzport.ensembles.reference.sample import sample_reference

        return sample_reference(
            molecule,
            sampler=sampler,
            preset=preset,
            seed=seed,
            samples=samples,
            hottest=hottest,
            proposal=proposal,
            energy=energy,
            command=command,
            device=device,
            progress=progress,
        )

    @classmethod
    def from_trajectory(
        cls,
        molecule: "Molecule",
        trajectory: Path | str,
        *,
        topology: Path | str,
        energy: "EnergyLike | None" = None,
        command: str = "",
    ) -> "Reference":
        """Import a trajectory of a molecule.

        Args:
            molecule: Molecule of the trajectory.
            trajectory: Trajectory in any format that MDTraj reads.
            topology: File with the names of its atoms.
            energy: Your own energy instead of the molecule's force field.
            command: Command that reproduces the reference, for the provenance.

        Raises:
            InputError: The trajectory is not of this molecule; the message says what differs.
        """
        from boltzport.ensembles.reference.make import reference_from_trajectory
        from boltzport.targets.boltzmann import open_energy

        with open_energy(molecule, energy=energy) as opened:
            return reference_from_trajectory(
                molecule, opened.evaluate, trajectory=Path(trajectory), topology=Path(topology), command=command
            )

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.reduced_energy)

    def __repr__(self) -> str:
        where = f"positions in {self.source}" if isinstance(self.source, Path) else "positions in memory"
        name = self.provenance.get("system")
        of = f" of {name}" if name else ""
        return f"Reference({len(self)} frames{of} in {len(np.unique(self.chain))} chains, {where})"

    @cached_property
    def positions(self) -> Float[np.ndarray, "frames atoms 3"]:
        """All frames in nm, float32; `batches` reads them without holding all in memory."""
        return np.concatenate(list(self.batches()))

    def batches(self, size: int = BATCH) -> Iterator[Float[np.ndarray, "batch atoms 3"]]:
        """Iterate over the frames in nm, float32, `size` at a time."""
        if not isinstance(self.source, Path):
            for start in range(0, len(self.source), size):
                yield self.source[start : start + size]
            return
        with hushed():
            opened = DCDTrajectoryFile(str(self.source / POSITIONS))
        with opened as file:
            while len(angstrom := file.read(size)[0]):
                yield angstrom * np.float32(ANGSTROM)

    def save(self, directory: Path | str) -> "Reference":
        """Write the dataset; the returned reference reads its frames from the directory.

        Raises:
            InputError: The directory cannot be created, or is the run directory of a training.
            RunError: The files cannot be written, for example because the disk is full; earlier ones are unchanged.
        """
        directory = Path(directory)
        check_output(directory, overwrite=True)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{directory} cannot be written: {error.strerror}") from error
        remove_leftovers(directory)
        try:
            with tempfile.TemporaryDirectory(dir=directory, prefix=temporary_name()) as folder:
                provenance = self._write(Path(folder))
                # The record is the last one: if it is new, the others are complete.
                for name in (PDB, POSITIONS, SAMPLES, PROVENANCE):
                    (Path(folder) / name).replace(directory / name)
        except OSError as error:
            raise RunError(f"{directory} cannot be written: {error.strerror or error}; nothing was changed") from error
        return replace(self, source=directory, provenance=provenance)

    def _write(self, folder: Path) -> dict[str, object]:
        (folder / PDB).write_text(self.pdb)
        with open_checked(folder / POSITIONS, DCDTrajectoryFile, lambda file, angstrom: file.write(angstrom)) as append:
            for batch in self.batches():
                append(batch / np.float32(ANGSTROM))
        np.savez(
            folder / SAMPLES,
            coordinates=self.coordinates.astype(np.float32),
            reduced_energy=self.reduced_energy.astype(np.float64),
            weights=self.weights.astype(np.float64),
            chain=self.chain,
        )
        provenance = {**self.provenance, "frames": len(self), "checksum": _checksum(folder / POSITIONS)}
        (folder / PROVENANCE).write_text(json.dumps(provenance, indent=2, allow_nan=False) + "\n")
        return provenance

    @classmethod
    def load(cls, directory: Path | str) -> "Reference":
        """Load a reference from its directory and check that it is complete.

        Raises:
            InputError: A file is missing or has been changed.
        """
        directory = Path(directory)
        _expect(directory, PROVENANCE, PDB, POSITIONS, SAMPLES)
        provenance = read_provenance(directory)
        if provenance.get("checksum") != _checksum(directory / POSITIONS):
            raise InputError(
                f"{directory / POSITIONS} does not have the checksum of {PROVENANCE}: it was changed or is incomplete; "
                "make the reference again"
            )
        arrays = read_arrays(directory / SAMPLES, what="make the reference again")
        shapes = {name: arrays[name].shape if name in arrays else None for name in _ARRAYS}
        frames = (shapes["reduced_energy"] or (0,))[:1]
        whole = all(shape is not None and shape[:1] == frames for shape in shapes.values())
        if not whole or frames == (0,) or any(arrays[name].dtype.kind not in "fiu" for name in _ARRAYS):
            raise InputError(
                f"{directory / SAMPLES} is damaged: expected {', '.join(_ARRAYS)} of equal length; make the reference "
                "again"
            )
        return cls(
            source=directory,
            pdb=_read_text(directory / PDB),
            **{name: arrays[name] for name in _ARRAYS},
            provenance=provenance,
        )


def check_output(directory: Path, *, overwrite: bool) -> None:
    """Check that a reference can be written to a directory, before it is sampled.

    Raises:
        InputError: It holds a reference or a training, or is not a directory.
    """
    if (directory / "config.toml").is_file():
        # Whose `reference.pdb` belongs to its flow.
        raise InputError(f"{directory} is the run directory of a training; choose another one for the reference")
    if directory.exists() and not directory.is_dir():
        raise InputError(f"{directory} is not a directory; choose another one")
    if not overwrite and any((directory / name).exists() for name in (PROVENANCE, POSITIONS, SAMPLES)):
        raise InputError(f"{directory} holds a reference; choose another directory, or overwrite it with --force")


def read_provenance(directory: Path) -> dict[str, Any]:
    """Read the provenance of a dataset, without its frames.

    Raises:
        InputError: There is no such record.
    """
    _expect(directory, PROVENANCE)
    return read_json(directory / PROVENANCE)


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}; make the reference again") from error


def _expect(directory: Path, *names: str) -> None:
    for name in names:
        if not (directory / name).is_file():
            raise InputError(
                f"{directory} is not a reference: expected {name} in it; make one with `boltzport reference`"
            )


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
