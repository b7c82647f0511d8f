"""All code that uses an OpenMM context, and the program of a worker process.

This file imports neither torch nor the rest of the package: a worker runs it as a script, which starts in a
fraction of a second and needs about 50 MB. A message is a pickled tuple preceded by its length; parent and
worker take turns, so neither ever waits for the other to read.
"""

import contextlib
import os
import pickle
import signal
import struct
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO, Any, NamedTuple

import numpy as np
import openmm

PLATFORMS = ("Reference", "CPU")
_HEADER = struct.Struct("<Q")
_HEARTBEAT = 1.0


class Evaluated(NamedTuple):
    """Results of some configurations.

    Attributes:
        energies: (batch,) in kJ/mol, NaN where the evaluation failed.
        forces: (batch, atoms, 3) in kJ/mol/nm, if requested.
        message: the first error, empty if there was none.
    """

    energies: np.ndarray
    forces: np.ndarray | None
    message: str


def serialise(system: openmm.System) -> str:
    """Serialise a system to text that another process can read."""
    text: str = openmm.XmlSerializer.serialize(system)
    return text


def bonded_pairs(system: openmm.System) -> list[tuple[int, int, float]]:
    """Pairs of atoms at a known distance in nm: constraints and harmonic bonds."""
    nanometre = openmm.unit.nanometer
    pairs = [system.getConstraintParameters(k) for k in range(system.getNumConstraints())]
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            pairs += [force.getBondParameters(k)[:3] for k in range(force.getNumBonds())]
    return [(i, j, length.value_in_unit(nanometre)) for i, j, length in pairs]


def context_of(system: openmm.System, platform: str) -> openmm.Context:
    """Create a context with one thread: for such small systems more threads are slower."""
    properties = {"Threads": "1"} if platform == "CPU" else {}
    # A context needs an integrator even if no step is ever taken.
    return openmm.Context(
        system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName(platform), properties
    )


def evaluate(context: openmm.Context, positions: np.ndarray, *, forces: bool) -> Evaluated:
    """Energies (kJ/mol) and forces (kJ/mol/nm) of positions (batch, atoms, 3) in nm, one after the other."""
    energies = np.full(len(positions), np.nan)
    all_forces = np.full(positions.shape, np.nan) if forces else None
    message = ""
    for index, configuration in enumerate(positions):
        try:
            context.setPositions(configuration)
            state = context.getState(getEnergy=True, getForces=forces)
        except Exception as error:  # a PythonForce may raise anything
            message = message or str(error)
            continue
        energies[index] = state.getPotentialEnergy()._value
        if all_forces is not None:
            all_forces[index] = state.getForces(asNumpy=True)._value
    return Evaluated(energies, all_forces, message)


def evaluate_groups(system: openmm.System, groups: Sequence[int], positions: np.ndarray) -> np.ndarray:
    """Energies (batch, groups) of groups of a system's forces, on the Reference platform.

    Args:
        system: the system; not modified.
        groups: group of every force of the system, counted from zero; negative to leave a force out.
        positions: (batch, atoms, 3) in nm.
    """
    system = openmm.XmlSerializer.deserialize(serialise(system))
    for force, group in zip(system.getForces(), groups, strict=True):
        force.setForceGroup(group if group >= 0 else 31)
    context = context_of(system, "Reference")
    energies = np.full((len(positions), max(groups) + 1), np.nan)
    for row, configuration in zip(energies, positions, strict=True):
        context.setPositions(configuration)
        for group in set(groups):
            if group >= 0:
                row[group] = context.getState(getEnergy=True, groups={group}).getPotentialEnergy()._value
    return energies


def fastest_platform(system: openmm.System, positions: np.ndarray, *, forces: bool) -> str:
    """The platform that evaluates these configurations fastest in one thread."""
    times = {}
    for name in PLATFORMS:
        try:
            context = context_of(system, name)
            evaluate(context, positions[:1], forces=forces)
            start = time.perf_counter()
            evaluate(context, positions, forces=forces)
            times[name] = time.perf_counter() - start
        except openmm.OpenMMException:
            continue
    if not times:
        raise openmm.OpenMMException(f"none of OpenMM's platforms {', '.join(PLATFORMS)} supports this system")
    return min(times, key=lambda name: times[name])


def send(stream: IO[bytes], message: tuple[Any, ...]) -> None:
    """Write a message."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_HEADER.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[Any, ...]:
    """Read a message.

    Raises:
        EOFError: the other side is gone.
    """

    def exactly(count: int) -> bytes:
        data = stream.read(count)
        if len(data) != count:
            raise EOFError("the other process is gone")
        return data

    message: tuple[Any, ...] = pickle.loads(exactly(_HEADER.unpack(exactly(_HEADER.size))[0]))
    return message


def _leave_with_parent() -> None:
    """End this process soon after its parent, however the parent ended and whatever this process is doing."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_HEARTBEAT)
    os._exit(1)


def main() -> None:
    """Serve until the parent closes the pipe."""
    # Ctrl-C goes to the whole process group; the parent decides what to do.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Accidental output must not get into the answers.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(requests, answers)
    # On exit, the interpreter would flush a broken pipe again.
    os._exit(0)


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer every task with a result and an empty message, or with ``None`` and an error message."""
    text, platform = receive(requests)
    system, context = None, None
    while True:
        task, positions, forces = receive(requests)
        try:
            system = system or openmm.XmlSerializer.deserialize(text)
            if task == "probe":
                answer: Any = fastest_platform(system, positions, forces=forces)
            else:
                context = context or context_of(system, platform)
                answer = evaluate(context, positions, forces=forces)._asdict()
        except Exception as error:
            send(answers, (None, f"{type(error).__name__}: {error}"))
            continue
        send(answers, (answer, ""))


if __name__ == "__main__":
    main()
