"""Programs of workers that evaluate one configuration after the other: ASE calculators, and xTB by tblite.

A worker runs this file as a script. Libraries are imported where they are used.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from boltzport.core.serving import Evaluated, serve

NM_PER_ANGSTROM = 0.1
NM_PER_BOHR = 0.0529177210903
KJ_PER_EV = 96.48533212331
KJ_PER_HARTREE = 2625.4996394799

Answer = Callable[[str, np.ndarray, bool], Any]
"""Answers a task about some configurations (batch, atoms, 3) in nm, with or without forces."""


def program(kind: str, numbers: tuple[int, ...], settings: Any) -> Answer:
    """What a worker does: `ase` with a pickled calculator, or `xtb` with the settings of tblite."""
    return (_ase if kind == "ase" else _xtb)(np.array(numbers), settings)


def is_calculator(given: object) -> bool:
    """Whether an object is an ASE calculator, and not a function or class that makes one."""
    return not isinstance(given, type) and hasattr(given, "get_potential_energy")


def _ase(numbers: np.ndarray, data: bytes) -> Answer:
    from ase import Atoms

    given = pickle.loads(data)
    calculator = given if is_calculator(given) else given()
    if not is_calculator(calculator):
        raise TypeError(f"expected an ASE calculator, got {type(calculator).__name__}")
    atoms: Any = Atoms(numbers=numbers, positions=np.zeros((len(numbers), 3)), calculator=calculator)

    def one(positions: np.ndarray, forces: np.ndarray | None) -> float:
        atoms.set_positions(positions / NM_PER_ANGSTROM)
        # Forces first: most calculators find the energy on the way.
        if forces is not None:
            forces[...] = atoms.get_forces() * (KJ_PER_EV / NM_PER_ANGSTROM)
        return float(atoms.get_potential_energy()) * KJ_PER_EV

    def answer(task: str, positions: np.ndarray, forces: bool) -> Any:  # noqa: FBT001
        if task == "forces":
            return "forces" in getattr(calculator, "implemented_properties", ["forces"])
        return _each(one, positions, forces=forces)

    return answer


def _xtb(numbers: np.ndarray, settings: dict[str, Any]) -> Answer:
    from tblite.interface import Calculator

    made: list[Any] = []

    def one(positions: np.ndarray, forces: np.ndarray | None) -> float:
        bohr = positions / NM_PER_BOHR
        if made:
            made[0].update(bohr)
        else:
            calculator = Calculator(
                settings["method"], numbers, bohr, charge=settings["charge"], uhf=settings["unpaired"]
            )
            calculator.set("verbosity", 0)
            calculator.set("accuracy", settings["accuracy"])
            made.append(calculator)
        # From a new guess each time, so that an energy does not depend on the configurations before it.
        found = made[0].singlepoint()
        if forces is not None:
            forces[...] = found.get("gradient") * (-KJ_PER_HARTREE / NM_PER_BOHR)
        return float(found.get("energy")) * KJ_PER_HARTREE

    def answer(_task: str, positions: np.ndarray, forces: bool) -> Any:  # noqa: FBT001
        return _each(one, positions, forces=forces)

    return answer


def _each(
    one: Callable[[np.ndarray, np.ndarray | None], float], positions: np.ndarray, *, forces: bool
) -> dict[str, Any]:
    """Evaluate configurations one after the other; an exception is a NaN and a message."""
    energies = np.full(len(positions), np.nan)
    all_forces = np.full(positions.shape, np.nan) if forces else None
    message = ""
    for k, configuration in enumerate(positions):
        try:
            energies[k] = one(configuration, None if all_forces is None else all_forces[k])
        except Exception as error:  # a calculator may raise anything
            message = message or f"{type(error).__name__}: {error}"
            if all_forces is not None:
                all_forces[k] = np.nan
    return Evaluated(energies, all_forces, message)._asdict()


if __name__ == "__main__":
    serve(program)
