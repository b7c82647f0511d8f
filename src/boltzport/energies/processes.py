"""Energies in several single-threaded processes: order kept, failures counted, dead workers replaced."""

import contextlib
import logging
import os
import queue
import subprocess
import sys
import threading
import weakref
from abc import abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from boltzport.core.closing import Closing
from boltzport.core.errors import InputError
from boltzport.core.serving import Evaluated, receive, send
from boltzport.energies.differentiate import BatchOfEnergies, EnergyAndForces, differentiable_energy

_LOG = logging.getLogger(__name__)

_TASKS_PER_WORKER = 4
_GRACE = 5.0


def available_cores() -> int:
    """Number of cores that this process may use; on some systems, that of the machine.

    The processes that torchrun starts on a host share them.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class WorkerDiedError(Exception):
    """A worker ended while it had work to do."""


class Worker(NamedTuple):
    """How a worker is started.

    Attributes:
        name: Name in messages, such as `OpenMM`.
        program: File that the worker runs as a script.
        setup: First message to the program.
        largest_task: Number of configurations per task: enough to hide the cost of a message, few enough to balance
            the load and to bound memory.
    """

    name: str
    program: str
    setup: tuple[Any, ...]
    largest_task: int


class _Process:
    """One process and the two pipes to it; used by one thread at a time."""

    def __init__(self, worker: Worker) -> None:
        self._name = worker.name
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        environment = {"OPENMM_CPU_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
        # Started by path and not as a module of its package, which would import torch in every worker; -P keeps
        # the file's folder off the import path.
        self.process = subprocess.Popen(
            [sys.executable, "-P", worker.program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment,
            start_new_session=False,
        )
        self._send(worker.setup)

    def _send(self, message: tuple[Any, ...]) -> None:
        assert self.process.stdin is not None
        try:
            send(self.process.stdin, message)
        except (OSError, ValueError) as error:
            raise WorkerDiedError from error

    def ask(self, task: str, positions: np.ndarray, *, forces: bool) -> Any:
        """Send a task and wait for the answer."""
        assert self.process.stdout is not None
        self._send((task, positions, forces))
        try:
            answer, message = receive(self.process.stdout)
        except (OSError, ValueError, EOFError) as error:
            raise WorkerDiedError from error
        if answer is None:
            raise InputError(f"{self._name} cannot evaluate this system: {message}")
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
    """Resources to clean up; separate from ``ProcessEnergy`` so that a finaliser can hold them."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.idle: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        self.all: set[_Process] = set()
        self.lock = threading.Lock()
        self.closed = False

    def start(self) -> _Process:
        with self.lock:
            if self.closed:
                raise WorkerDiedError
            process = _Process(self.worker)
            self.all.add(process)
            return process

    def discard(self, process: _Process) -> None:
        with self.lock:
            self.all.discard(process)
        process.end()

    def end_all(self) -> None:
        with self.lock:
            self.closed = True
            leaving, self.all = self.all, set()
        for process in leaving:
            process.end()


class ProcessEnergy(Closing):
    """An energy in several processes; the abstract part of `OpenMMEnergy`, `ASE` and `XTB`.

    If the evaluation of a configuration fails, its energy is NaN and it is counted in ``failures``. If a worker
    dies, it is replaced and its configurations are retried one at a time, so that a configuration that kills
    its worker does not affect the others; it is counted in ``lost`` as well.
    Use it as a context manager or call ``close``; the workers also end with this process, however it ends.

    Args:
        worker: How a worker is started.
        processes: number of workers; by default one per core.
    """

    def __init__(self, worker: Worker, *, processes: int | None = None) -> None:
        processes = processes if processes is not None else available_cores()
        if processes < 1:
            raise InputError(f"processes must be at least 1, got {processes}")
        self.failures = 0
        self.restarts = 0
        self.lost = 0
        self.complaint = ""
        self._processes = processes
        self._state = _State(worker)
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix=worker.name)
        self._finalise = weakref.finalize(self, _State.end_all, self._state)

    @abstractmethod
    def _check(self, positions: Tensor) -> None:
        """Reject positions that are clearly wrong."""

    @abstractmethod
    def _prepare(self, positions: np.ndarray, *, forces: bool) -> None:
        """Do what is left to do before the first evaluation, given some sound configurations."""

    @final
    def close(self) -> None:
        """End all workers; the object cannot be used afterwards."""
        self._finalise()
        self._threads.shutdown(wait=True, cancel_futures=True)

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the running workers."""
        with self._state.lock:
            return [process.process.pid for process in self._state.all]

    @property
    def differentiable(self) -> bool:
        """Whether there are forces; true unless overridden."""
        return True

    @final
    def __call__(self, positions: Tensor) -> BatchOfEnergies:
        """Energies in kJ/mol of positions in nm; NaN where the evaluation failed."""
        self._check_open(positions)
        if positions.requires_grad and torch.is_grad_enabled() and self.differentiable:
            return differentiable_energy(positions, self._energy_and_forces)
        return self._evaluate(positions, forces=False)[0]

    @final
    def energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        """Energies in kJ/mol and forces in kJ/mol/nm of positions in nm; NaN where the evaluation failed."""
        self._check_open(positions)
        return self._energy_and_forces(positions)

    def _energy_and_forces(self, positions: Tensor) -> EnergyAndForces:
        energies, forces = self._evaluate(positions, forces=True)
        assert forces is not None
        return EnergyAndForces(energies, forces)

    def _check_open(self, positions: Tensor) -> None:
        if self._state.closed:
            raise InputError(f"this {type(self).__name__} is closed; create a new one")
        self._check(positions)

    def _evaluate(self, positions: Tensor, *, forces: bool) -> tuple[Tensor, Tensor | None]:
        given = positions.detach().to("cpu", torch.float64).contiguous().numpy()
        # The energy of NaN positions depends on the library; ours does not.
        sound = np.flatnonzero(np.isfinite(given).all(axis=(1, 2)))
        energies = np.full(len(given), np.nan)
        all_forces = np.full(given.shape, np.nan) if forces else None
        largest = self._state.worker.largest_task
        size = min(largest, max(1, -(-len(sound) // (self._processes * _TASKS_PER_WORKER))))
        message = "" if len(sound) == len(given) else "the positions are not finite"
        try:
            if len(sound):
                self._prepare(given[sound[:8]], forces=forces)
            parts = [sound[start : start + size] for start in range(0, len(sound), size)]
            futures: list[Future[Evaluated]] = [self._threads.submit(self._task, given, p, forces) for p in parts]
            for part, future in zip(parts, futures, strict=True):
                found = future.result()
                energies[part] = found.energies
                if all_forces is not None:
                    all_forces[part] = found.forces
                message = message or found.message
        except BaseException:
            # A partial batch is useless, and on Ctrl-C nothing may keep running.
            self.close()
            raise
        failed = int(np.isnan(energies).sum())
        self.failures += failed
        if failed:
            name = self._state.worker.name
            self.complaint = message or f"{name} returned NaN, as it does when two atoms coincide"
            _LOG.warning("%d of %d configurations have no energy (NaN): %s", failed, len(given), self.complaint)
        return (
            torch.from_numpy(energies).to(positions),
            None if all_forces is None else torch.from_numpy(all_forces).to(positions),
        )

    def _ask_once(self, task: str, positions: np.ndarray, *, forces: bool) -> Any:
        """Ask a new worker, which ends after its answer.

        Raises:
            InputError: The task cannot be done, or kills the worker.
        """
        process = self._state.start()
        name = self._state.worker.name
        try:
            return process.ask(task, positions, forces=forces)
        except WorkerDiedError:
            raise InputError(f"a worker of {name} died with this system; check the system with {name} alone") from None
        finally:
            self._state.discard(process)

    def _task(self, given: np.ndarray, part: np.ndarray, forces: bool) -> Evaluated:  # noqa: FBT001
        positions = given[part]
        answer = self._ask(positions, forces=forces)
        if answer is not None:
            return answer
        again = self._ask_again(positions, forces=forces)
        lost = Evaluated(np.array([np.nan]), np.full((1, *positions.shape[1:]), np.nan), "the worker died twice")
        self.lost += sum(one is None for one in again)
        found = [lost if one is None else one for one in again]
        joined = np.concatenate([one.forces for one in found if one.forces is not None]) if forces else None
        message = next((one.message for one in found if one.message), "")
        return Evaluated(np.concatenate([one.energies for one in found]), joined, message)

    def _ask(self, positions: np.ndarray, *, forces: bool) -> Evaluated | None:
        """Evaluate on an idle worker; ``None`` if it died."""
        try:
            process = self._state.idle.get_nowait()
        except queue.Empty:
            process = self._state.start()
        answer = self._ask_process(process, positions, forces=forces)
        if answer is not None:
            self._state.idle.put(process)
        return answer

    def _ask_again(self, positions: np.ndarray, *, forces: bool) -> list[Evaluated | None]:
        """Evaluate one at a time on a new worker; ``None`` for those that kill it.

        An idle worker is not used: whatever killed the first one may have killed it too, unnoticed, and the
        configuration would be blamed for it.
        """
        process = self._state.start()
        answers = []
        for k in range(len(positions)):
            answers.append(self._ask_process(process, positions[k : k + 1], forces=forces))
            if answers[-1] is None:
                process = self._state.start()
        self._state.idle.put(process)
        return answers

    def _ask_process(self, process: _Process, positions: np.ndarray, *, forces: bool) -> Evaluated | None:
        """Evaluate on a worker; ``None`` if it died, in which case it is removed."""
        try:
            return Evaluated(**process.ask("evaluate", positions, forces=forces))
        except WorkerDiedError:
            self._state.discard(process)
            if self._state.closed:
                raise
            self.restarts += 1
            _LOG.warning("a worker of %s died; a new one replaces it", self._state.worker.name)
            return None
