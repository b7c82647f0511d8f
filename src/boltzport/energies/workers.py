"""All code that uses an OpenMM context, and the program of an OpenMM worker, which runs this file as a script."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openmm

from boltzport.core.serving import Evaluated, serve

PLATFORMS = ("Reference", "CPU")


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


def program(text: str, platform: str | None) -> Callable[[str, np.ndarray, bool], Any]:
    """What a worker does with a system: `probe` for the fastest platform, or `evaluate` configurations."""
    system = openmm.XmlSerializer.deserialize(text)
    contexts: list[openmm.Context] = []

    def answer(task: str, positions: np.ndarray, forces: bool) -> Any:  # noqa: FBT001
        if task == "probe":
            return fastest_platform(system, positions, forces=forces)
        if not contexts:
            assert platform is not None
            contexts.append(context_of(system, platform))
        return evaluate(contexts[0], positions, forces=forces)._asdict()

    return answer


if __name__ == "__main__":
    serve(program)
