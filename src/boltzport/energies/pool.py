"""``OpenMMEnergy``: the interface of ``ForceField`` on a pool of OpenMM processes, for any OpenMM force."""

import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.energies import workers
from boltzport.energies.checks import check_positions
from boltzport.energies.differentiate import (
    BatchOfEnergies,
    EnergyAndForces,
    differentiable_energy,
)

_LOG = logging.getLogger(__name__)

# Configurations per task: enough to hide the cost of a message, few enough to balance the load and to bound
# memory.
_LARGEST_TASK = 256
_TASKS_PER_WORKER = 4
_PROBES = 8
_GRACE = 5.0


def _cores() -> int:
    """Number of cores that this process may use; on some systems, that of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _WorkerDiedError(Exception):
    """A worker ended while it had work to do."""


class _Worker:
    """One OpenMM process and the two pipes to it; used by one thread at a time."""

    def __init__(self, system: str, platform: str | None) -> None:
        environment = os.environ | {"OPENMM_CPU_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # Started by path and not as a module of the package, which would import torch in every worker; -P
        # keeps the file's folder off the import path.
        self.process = subprocess.Popen(
            [sys.executable, "-P", workers.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=False,
        )
        self._send((system, platform))

    def _send(self, message: tuple[Any, ...]) -> None:
        assert self.process.stdin is not None
        try:
            workers.send(self.process.stdin, message)
        except (OSError, ValueError) as error:
            raise _WorkerDiedError from error

    def ask(self, task: str, positions: np.ndarray, *, forces: bool) -> Any:
        """Send a task and wait for the answer."""
        assert self.process.stdout is not None
        self._send((task, positions, forces))
        try:
            answer, message = workers.receive(self.process.stdout)
        except (OSError, ValueError, EOFError) as error:
            raise _WorkerDiedError from error
        if answer is None:
            raise InputError(f"OpenMM cannot evaluate this system: {message}")
        return answer

    def end(self) -> None:
        """End the process, by force if it does not respond, and close the pipes."""
        self.process.kill()
        self.process.wait(_GRACE)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()


class _State:
    """Resources to clean up; separate from ``OpenMMEnergy`` so that a finaliser can hold them."""

    def __init__(self, system: str, platform: str | None) -> None:
        self.system, self.platform = system, platform
        self.idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self.all: set[_Worker] = set()
        self.lock = threading.Lock()
        self.closed = False

    def start(self) -> _Worker:
        with self.lock:
            if self.closed:
                raise _WorkerDiedError
            worker = _Worker(self.system, self.platform)
            self.all.add(worker)
            return worker

    def discard(self, worker: _Worker) -> None:
        with self.lock:
            self.all.discard(worker)
        worker.end()

    def end_all(self) -> None:
        with self.lock:
            self.closed = True
            leaving, self.all = self.all, set()
        for worker in leaving:
            worker.end()


class _Result(NamedTuple):
    start: int
    evaluated: workers.Evaluated
    lost: int


class OpenMMEnergy(Closing):
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
        processes = processes if processes is not None else _cores()
        if processes < 1:
            raise InputError(f"processes must be at least 1, got {processes}")
        self.atoms = int(system.getNumParticles())
        self.failures = 0
        self.restarts = 0
        self._processes = processes
        pairs = workers.bonded_pairs(system)
        self._bonds = torch.tensor([pair[:2] for pair in pairs], dtype=torch.long).reshape(-1, 2)
        self._lengths = torch.tensor([pair[2] for pair in pairs], dtype=torch.float64)
        self._state = _State(workers.serialise(system), platform)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="openmm")
        self._finalise = weakref.finalize(self, _State.end_all, self._state)

    def close(self) -> None:
        """End all workers; the object cannot be used afterwards."""
        self._finalise()
        self._threads.shutdown(wait=True, cancel_futures=True)

    @property
    def differentiable(self) -> bool:
        """Whether there are forces: always true."""
        return True

    @property
    def platform(self) -> str | None:
        """OpenMM platform, once it is chosen."""
        return self._state.platform

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the running workers."""
        with self._state.lock:
            return [worker.process.pid for worker in self._state.all]

    def __call__(self, positions: Tensor) -> BatchOfEnergies:
        """Energies in kJ/mol of positions in nm; NaN where the evaluation failed."""
        self._check(positions)
        if positions.requires_grad and torch.is_grad_enabled():
            return differentiable_energy(positions, self._energy_and_forces)
        return self._evaluate(positions, forces=False)[0]

    def energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        """Energies in kJ/mol and forces in kJ/mol/nm of positions in nm; NaN where the evaluation failed."""
        self._check(positions)
        return self._energy_and_forces(positions)

    def _energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        energies, forces = self._evaluate(positions, forces=True)
        assert forces is not None
        return EnergyAndForces(energies, forces)

    def _check(self, positions: Tensor) -> None:
        if self._state.closed:
            raise InputError("this OpenMMEnergy is closed; create a new one")
        check_positions(positions, atoms=self.atoms, bonds=self._bonds, lengths=self._lengths)

    def _evaluate(self, positions: Tensor, *, forces: bool) -> tuple[Tensor, Tensor | None]:
        given = positions.detach().to("cpu", torch.float64).contiguous().numpy()
        # OpenMM's result for NaN positions depends on the platform; ours does not.
        sound = np.flatnonzero(np.isfinite(given).all(axis=(1, 2)))
        energies = np.full(len(given), np.nan)
        all_forces = np.full(given.shape, np.nan) if forces else None
        size = min(_LARGEST_TASK, max(1, -(-len(sound) // (self._processes * _TASKS_PER_WORKER))))
        message = "" if len(sound) == len(given) else "the positions are not finite"
        try:
            if len(sound) and self._state.platform is None:
                self._state.platform = self._probe(given[sound[:_PROBES]], forces=forces)
            parts = [sound[start : start + size] for start in range(0, len(sound), size)]
            futures: list[Future[_Result]] = [
                self._threads.submit(self._task, number, given[part], forces) for number, part in enumerate(parts)
            ]
            for future in futures:
                result = future.result()
                part = parts[result.start]
                energies[part] = result.evaluated.energies
                if all_forces is not None:
                    all_forces[part] = result.evaluated.forces
                message = message or result.evaluated.message
        except BaseException:
            # A partial batch is useless, and on Ctrl-C nothing may keep running.
            self.close()
            raise
        failed = int(np.isnan(energies).sum())
        self.failures += failed
        if failed:
            reason = message or "OpenMM returned NaN, as it does when two atoms coincide"
            _LOG.warning("%d of %d configurations have no energy (NaN): %s", failed, len(given), reason)
        return (
            torch.from_numpy(energies).to(positions),
            None if all_forces is None else torch.from_numpy(all_forces).to(positions),
        )

    def _probe(self, positions: np.ndarray, *, forces: bool) -> str:
        worker = self._state.start()
        try:
            platform: str = worker.ask("probe", positions, forces=forces)
        except _WorkerDiedError:
            raise InputError("an OpenMM worker died with this system; check the system with OpenMM alone") from None
        finally:
            self._state.discard(worker)
        _LOG.info("OpenMM's platform for this system: %s", platform)
        return platform

    def _task(self, number: int, positions: np.ndarray, forces: bool) -> _Result:  # noqa: FBT001
        answer = self._ask(positions, forces=forces)
        if answer is not None:
            return _Result(number, answer, 0)
        again = self._ask_again(positions, forces=forces)
        lost = workers.Evaluated(
            np.array([np.nan]), np.full((1, *positions.shape[1:]), np.nan), "the worker died twice"
        )
        found = [lost if one is None else one for one in again]
        joined = np.concatenate([one.forces for one in found if one.forces is not None]) if forces else None
        message = next((one.message for one in found if one.message), "")
        evaluated = workers.Evaluated(np.concatenate([one.energies for one in found]), joined, message)
        return _Result(number, evaluated, sum(one is None for one in again))

    def _ask(self, positions: np.ndarray, *, forces: bool) -> workers.Evaluated | None:
        """Evaluate on an idle worker; ``None`` if it died."""
        try:
            worker = self._state.idle.get_nowait()
        except queue.Empty:
            worker = self._state.start()
        answer = self._ask_worker(worker, positions, forces=forces)
        if answer is not None:
            self._state.idle.put(worker)
        return answer

    def _ask_again(self, positions: np.ndarray, *, forces: bool) -> list[workers.Evaluated | None]:
        """Evaluate one at a time on a new worker; ``None`` for those that kill it.

        An idle worker is not used: whatever killed the first one may have killed it too, unnoticed, and the
        configuration would be blamed for it.
        """
        worker = self._state.start()
        answers = []
        for k in range(len(positions)):
            answers.append(self._ask_worker(worker, positions[k : k + 1], forces=forces))
            if answers[-1] is None:
                worker = self._state.start()
        self._state.idle.put(worker)
        return answers

    def _ask_worker(self, worker: _Worker, positions: np.ndarray, *, forces: bool) -> workers.Evaluated | None:
        """Evaluate on a worker; ``None`` if it died, in which case it is removed."""
        try:
            return workers.Evaluated(**worker.ask("evaluate", positions, forces=forces))
        except _WorkerDiedError:
            self._state.discard(worker)
            if self._state.closed:
                raise
            self.restarts += 1
            _LOG.warning("an OpenMM worker died; a new one replaces it")
            return None
