"""Replicas that OpenMM propagates, on one thread (`Propagator`) or in several single-threaded processes (`Team`).

A process receives a number of steps and returns energies, and positions on request. Swaps exchange temperatures and
not positions: a swap moves two numbers, and velocities are rescaled. Ranks have teams of their own (`Divided`).
"""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

import numpy as np
import openmm
import torch
from openmm import unit

from boltzport.core.errors import InputError, RunError
from boltzport.core.parallel import ranks

PROBE = 50
"""Number of steps for the comparison of platforms."""


class Dynamics(NamedTuple):
    """Settings common to all replicas.

    Attributes:
        system: OpenMM System as XML.
        time_step: Time step in fs.
        friction: Friction coefficient in 1/ps.
    """

    system: str
    time_step: float
    friction: float


class Replica(NamedTuple):
    """Initial state of a replica: temperature in K, positions in nm, and seed."""

    temperature: float
    positions: np.ndarray
    seed: int


class Outcome(NamedTuple):
    """Energies in kJ/mol of all replicas, and positions in nm of the requested ones, by replica."""

    energies: np.ndarray
    positions: dict[int, np.ndarray]


class Propagator:
    """Replicas in this process, one after the other, on one thread.

    Args:
        dynamics: Settings common to all replicas.
        replicas: Initial states of the replicas.
    """

    def __init__(self, dynamics: Dynamics, replicas: Sequence[Replica]) -> None:
        system = openmm.XmlSerializer.deserialize(dynamics.system)
        platform = _fastest_platform(system, dynamics, replicas[0])
        self._contexts = [_context(system, dynamics, replica, platform) for replica in replicas]
        self._now = [replica.temperature for replica in replicas]

    def run(self, steps: int, wanted: Sequence[int] = (), temperatures: Mapping[int, float] | None = None) -> Outcome:
        """Set new temperatures, propagate all replicas, and return positions of some."""
        for k, temperature in (temperatures or {}).items():
            _set_temperature(self._contexts[k], self._now[k], temperature)
            self._now[k] = temperature
        for context in self._contexts:
            context.getIntegrator().step(steps)
        energies = np.array([_energy(context) for context in self._contexts])
        return Outcome(energies, {k: _positions(self._contexts[k]) for k in wanted})


class Team:
    """Replicas distributed over processes; a context manager that ends the processes on exit.

    Args:
        dynamics: Settings common to all replicas.
        replicas: Initial states of the replicas.
        processes: Number of processes.
    """

    def __init__(self, dynamics: Dynamics, replicas: Sequence[Replica], *, processes: int) -> None:
        # After OpenMM's CPU platform was used, a fork can deadlock.
        context = multiprocessing.get_context("spawn")
        self._owned = [list(range(start, len(replicas), processes)) for start in range(min(processes, len(replicas)))]
        self._count = len(replicas)
        self._workers = []
        for owned in self._owned:
            here, there = context.Pipe()
            arguments = (there, dynamics, [replicas[i] for i in owned])
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self._workers.append((process, here))

    def __enter__(self) -> "Team":
        return self

    def __exit__(self, *exception: object) -> None:
        del exception
        for _, pipe in self._workers:
            with suppress(OSError):
                pipe.close()
        for process, _ in self._workers:
            process.join(timeout=5)
            if process.is_alive():
                process.terminate()

    def run(self, steps: int, wanted: Sequence[int] = (), temperatures: Mapping[int, float] | None = None) -> Outcome:
        """Set new temperatures, propagate all replicas, and return positions of some.

        Raises:
            RunError: A process failed, or a replica blew up.
        """
        changed = temperatures or {}
        energies, positions = np.full(self._count, np.nan), {}
        try:
            for (_, pipe), owned in zip(self._workers, self._owned, strict=True):
                fetch = [k for k, replica in enumerate(owned) if replica in wanted]
                pipe.send((steps, fetch, {k: changed[i] for k, i in enumerate(owned) if i in changed}))
            for (_, pipe), owned in zip(self._workers, self._owned, strict=True):
                answer = pipe.recv()
                if isinstance(answer, str):
                    raise RunError(f"OpenMM's dynamics failed: {answer}")
                energies[owned] = answer.energies
                positions.update({owned[k]: frame for k, frame in answer.positions.items()})
        except (EOFError, OSError) as error:
            raise RunError("a process of OpenMM's dynamics ended unexpectedly") from error
        if not np.isfinite(energies).all():
            raise RunError(
                f"replica {int(np.flatnonzero(~np.isfinite(energies))[0])} blew up: its energy is not finite; "
                "expected a time step of about 1 fs"
            )
        return Outcome(energies, positions)


class Divided:
    """Replicas that ranks divide; every rank gets the outcome of all.

    Args:
        own: The replicas of this rank: those of the numbers rank, rank + P, rank + 2 P and so on of P ranks.
        count: Number of replicas of all ranks.
        atoms: Number of atoms of each.
    """

    def __init__(self, own: Team | Propagator, count: int, atoms: int) -> None:
        self._own, self._count, self._atoms, self._world = own, count, atoms, ranks().world
        self._places = {replica: place for place, replica in enumerate(range(ranks().rank, count, self._world))}

    def run(self, steps: int, wanted: Sequence[int] = (), temperatures: Mapping[int, float] | None = None) -> Outcome:
        """Set new temperatures, propagate all replicas, and return positions of some.

        Raises:
            RunError: A process failed, or a replica blew up.
        """
        places, changed = self._places, (temperatures or {}).items()
        mine = [places[replica] for replica in wanted if replica in places]
        found = self._own.run(steps, mine, {places[replica]: now for replica, now in changed if replica in places})
        order = [replica for rank in range(self._world) for replica in range(rank, self._count, self._world)]
        energies = np.empty(self._count)
        energies[order] = ranks().gather(torch.from_numpy(found.energies)).numpy()
        frames = np.array([found.positions[place] for place in mine]).reshape(-1, self._atoms, 3)
        joined = ranks().gather(torch.from_numpy(frames)).numpy() if wanted else frames
        asked = [replica for rank in range(self._world) for replica in wanted if replica % self._world == rank]
        return Outcome(energies, dict(zip(asked, joined, strict=True)))


@contextmanager
def team(dynamics: Dynamics, replicas: Sequence[Replica], *, processes: int | None) -> Iterator[Team | Divided]:
    """Replicas on all cores of this machine, or on the ranks.

    Args:
        dynamics: Settings common to all replicas.
        replicas: Initial states of the replicas.
        processes: Number of processes, of each rank if there are several; None for all cores, or one for each rank.

    Raises:
        InputError: There are more ranks than replicas.
    """
    if ranks().alone:
        with Team(dynamics, replicas, processes=processes or os.cpu_count() or 1) as alone:
            yield alone
        return
    if ranks().world > len(replicas):
        raise InputError(f"expected at most {len(replicas)} processes, one for each replica, got {ranks().world}")
    own = replicas[ranks().rank :: ranks().world]
    with Team(dynamics, own, processes=processes or 1) as mine:
        yield Divided(mine, len(replicas), len(replicas[0].positions))


def _serve(pipe: Connection, dynamics: Dynamics, replicas: list[Replica]) -> None:
    # Ctrl-C goes to the whole process group; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):
        try:
            propagator = Propagator(dynamics, replicas)
            while True:
                pipe.send(propagator.run(*pipe.recv()))
        except openmm.OpenMMException as error:
            pipe.send(str(error))


def _context(system: openmm.System, dynamics: Dynamics, replica: Replica, platform: str) -> openmm.Context:
    integrator = openmm.LangevinMiddleIntegrator(
        replica.temperature * unit.kelvin,
        dynamics.friction / unit.picosecond,
        dynamics.time_step * unit.femtosecond,
    )
    integrator.setRandomNumberSeed(replica.seed)
    properties = {"Threads": "1", "DeterministicForces": "true"} if platform == "CPU" else {}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatform(platform), properties)
    context.setPositions(replica.positions)
    context.setVelocitiesToTemperature(replica.temperature * unit.kelvin, replica.seed)
    return context


def _fastest_platform(system: openmm.System, dynamics: Dynamics, replica: Replica) -> str:
    """The faster platform for this system."""
    times = {}
    for name in ("Reference", "CPU"):
        with suppress(openmm.OpenMMException):
            context = _context(system, dynamics, replica, name)
            context.getIntegrator().step(5)
            # Process time, not wall-clock time: the processes of a team probe at the same time.
            start = time.process_time()
            context.getIntegrator().step(PROBE)
            times[name] = time.process_time() - start
    if not times:
        raise openmm.OpenMMException("neither the Reference nor the CPU platform supports this system")
    return min(times, key=lambda name: times[name])


def _set_temperature(context: openmm.Context, before: float, after: float) -> None:
    velocities = context.getState(velocities=True).getVelocities(asNumpy=True)
    context.setVelocities(velocities * (after / before) ** 0.5)
    context.getIntegrator().setTemperature(after * unit.kelvin)


def _energy(context: openmm.Context) -> float:
    energy = context.getState(energy=True).getPotentialEnergy()
    return float(energy.value_in_unit(unit.kilojoule_per_mole))


def _positions(context: openmm.Context) -> np.ndarray:
    found = context.getState(positions=True).getPositions(asNumpy=True)
    return np.array(found.value_in_unit(unit.nanometer))
