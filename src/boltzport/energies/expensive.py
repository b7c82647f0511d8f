"""``ExpensiveEnergy``: an energy that is evaluated once for each configuration, with its speed measured."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from boltzport.core.closing import Closing
from boltzport.core.serving import Evaluated
from boltzport.energies.differentiate import BatchOfEnergies, EnergyAndForces, differentiable_energy
from boltzport.energies.processes import ProcessEnergy
from boltzport.energies.record import Record, digests

_LOG = logging.getLogger(__name__)

CHUNK = 256
"""Number of configurations that are evaluated between two writes to the file."""

Shown = Callable[[int, int, float], None]
"""Shows progress: number of configurations done, number of all in the batch, evaluations per second."""


class ExpensiveEnergy(Closing):
    """Evaluates a batch in chunks, keeps the results in a file, and does not evaluate a configuration twice.

    Repeated configurations of a batch are evaluated once. A failed evaluation is kept as NaN, except where a worker
    died, which may have another cause.

    Args:
        energy: The energy.
        path: File of the evaluations; None to keep none.
        identity: Name and settings of the energy; a file of another energy is refused.
        atoms: Number of atoms.

    Attributes:
        evaluations: Number of configurations that were evaluated.
        reused: Number of configurations that were found in the file, or more than once in a batch.
        failures: Number of evaluations that failed.
        shown: Shows the progress of a batch.

    Raises:
        InputError: The file holds evaluations of another energy.

    Example:
        >>> from boltzport.energies.xtb import XTB
        >>> positions = torch.tensor([[[0.0, 0.0, 0.0], [0.074, 0.0, 0.0]]]).expand(5, -1, -1)
        >>> with ExpensiveEnergy(XTB([1, 1], processes=1), identity="hydrogen", atoms=2) as energy:
        ...     energies = energy(positions)
        >>> len(energies), energy.evaluations, energy.reused
        (5, 1, 4)
    """

    def __init__(self, energy: ProcessEnergy, *, identity: str, atoms: int, path: Path | None = None) -> None:
        self._energy, self._identity, self._atoms = energy, identity, atoms
        self._record: Record | None = None
        if path is not None:
            self.keep(path)
        self.evaluations = self.reused = self.failures = 0
        self.shown: Shown | None = None
        self._seconds = 0.0

    def keep(self, path: Path) -> None:
        """Keep the evaluations in a file from now on; nothing changes if they are kept already.

        Raises:
            InputError: The file holds evaluations of another energy.
        """
        if self._record is not None:
            return
        self._record = Record(path, identity=self._identity, atoms=self._atoms)
        if not self._record.writable:
            _LOG.warning("%s is in use by another process: evaluations are not added to it", path)

    @property
    def inner(self) -> ProcessEnergy:
        """The energy itself."""
        return self._energy

    @property
    def rate(self) -> float | None:
        """Evaluations per second so far; None before the first."""
        return self.evaluations / self._seconds if self.evaluations else None

    @property
    def differentiable(self) -> bool:
        """Whether there are forces."""
        return self._energy.differentiable

    def close(self) -> None:
        """End the processes of the energy and close the file."""
        self._energy.close()
        if self._record is not None:
            self._record.close()

    def __call__(self, positions: Tensor) -> BatchOfEnergies:
        """Energies in kJ/mol of positions in nm; NaN where the evaluation failed."""
        if positions.requires_grad and torch.is_grad_enabled() and self.differentiable:
            return differentiable_energy(positions, self.energy_and_forces)
        return self._evaluate(positions, forces=False)[0]

    def energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        """Energies in kJ/mol and forces in kJ/mol/nm of positions in nm; NaN where the evaluation failed."""
        energies, forces = self._evaluate(positions, forces=True)
        assert forces is not None
        return EnergyAndForces(energies, forces)

    def _evaluate(self, positions: Tensor, *, forces: bool) -> tuple[Tensor, Tensor | None]:
        given = positions.detach().to("cpu", torch.float64)
        keys = digests(given.numpy())
        energies = np.full(len(given), np.nan)
        all_forces = np.full(tuple(given.shape), np.nan) if forces else None
        # The places of each configuration that is not in the file.
        missing: dict[bytes, list[int]] = {}
        for k, key in enumerate(keys):
            known = None if self._record is None else self._record.find(key, forces=forces)
            if known is None:
                missing.setdefault(key, []).append(k)
                continue
            energies[k] = known[0]
            if all_forces is not None:
                all_forces[k] = known[1]
        self.reused += len(keys) - len(missing)
        todo = list(missing)
        # An empty batch is also checked for its shape.
        for start in range(0, max(len(todo), 1), CHUNK):
            part = todo[start : start + CHUNK]
            found = self._chunk(given[[missing[key][0] for key in part]], part, forces=forces)
            for j, key in enumerate(part):
                energies[missing[key]] = found.energies[j]
                if all_forces is not None and found.forces is not None:
                    all_forces[missing[key]] = found.forces[j]
            if self.shown is not None and self.rate is not None:
                self.shown(start + len(part), len(todo), self.rate)
        return (
            torch.from_numpy(energies).to(positions),
            None if all_forces is None else torch.from_numpy(all_forces).to(positions),
        )

    def _chunk(self, positions: Tensor, keys: list[bytes], *, forces: bool) -> Evaluated:
        """Evaluate some configurations and keep them."""
        lost, begin = self._energy.lost, time.perf_counter()
        if forces:
            pair = self._energy.energy_and_forces(positions)
            found = Evaluated(pair.energies.numpy(), pair.forces.numpy(), "")
        else:
            found = Evaluated(self._energy(positions).numpy(), None, "")
        self._seconds += time.perf_counter() - begin
        self.evaluations += len(keys)
        failed = np.isnan(found.energies)
        self.failures += int(failed.sum())
        if self._record is not None:
            kept = np.flatnonzero(~failed) if self._energy.lost > lost else np.arange(len(keys))
            these = None if found.forces is None else found.forces[kept]
            self._record.append([keys[k] for k in kept], Evaluated(found.energies[kept], these, ""))
        return found
