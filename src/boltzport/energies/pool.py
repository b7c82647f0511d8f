"""``OpenMMEnergy``: the interface of ``ForceField`` on a pool of OpenMM processes, for any OpenMM force."""

import hashlib
import logging
from typing import Any

import numpy as np
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies import workers
from boltzport.energies.checks import check_positions
from boltzport.energies.processes import ProcessEnergy, Worker

_LOG = logging.getLogger(__name__)

_LARGEST_TASK = 256


class OpenMMEnergy(ProcessEnergy):
    """Energies from OpenMM, in several single-threaded processes; positions are (batch, atoms, 3) in nm.

    If the evaluation of a configuration fails, its energy is NaN and it is counted in ``failures``. If a worker
    dies, it is replaced and its configurations are retried one at a time, so that a configuration that kills
    its worker does not affect the others.
    Use it as a context manager or call ``close``; the workers also end with this process, however it ends.

    Args:
        system: any ``openmm.System``.
        processes: number of workers; by default one per core.
        platform: ``Reference`` or ``CPU``; by default the faster one, measured on the first configurations.

    Example:
        >>> from boltzport.molecules import Molecule
        >>> molecule = Molecule("ACE-ALA-NME")
        >>> with OpenMMEnergy(molecule.system, processes=1, platform="Reference") as energy:
        ...     energy(torch.from_numpy(molecule.positions).expand(2, -1, -1)).shape
        torch.Size([2])
    """

    def __init__(self, system: Any, *, processes: int | None = None, platform: str | None = None) -> None:
        if platform is not None and platform not in workers.PLATFORMS:
            raise InputError(f"platform must be one of {', '.join(workers.PLATFORMS)}, got {platform!r}")
        setup = (workers.serialise(system), platform)
        worker = Worker("OpenMM", workers.__file__, setup, _LARGEST_TASK)
        super().__init__(worker, processes=processes)
        self.atoms = int(system.getNumParticles())
        pairs = workers.bonded_pairs(system)
        self._bonds = torch.tensor([pair[:2] for pair in pairs], dtype=torch.long).reshape(-1, 2)
        self._lengths = torch.tensor([pair[2] for pair in pairs], dtype=torch.float64)

    @property
    def fingerprint(self) -> str:
        """Digest of the system, equal for equal systems."""
        return hashlib.sha256(self._state.worker.setup[0].encode()).hexdigest()

    @property
    def platform(self) -> str | None:
        """OpenMM platform, once it is chosen."""
        platform: str | None = self._state.worker.setup[1]
        return platform

    def _check(self, positions: Tensor) -> None:
        check_positions(positions, atoms=self.atoms, bonds=self._bonds, lengths=self._lengths)

    def _prepare(self, positions: np.ndarray, *, forces: bool) -> None:
        if self.platform is not None:
            return
        platform: str = self._ask_once("probe", positions, forces=forces)
        _LOG.info("OpenMM's platform for this system: %s", platform)
        worker = self._state.worker
        self._state.worker = worker._replace(setup=(worker.setup[0], platform))
