"""ASE calculators that fail, die and count, for several tests; workers import them from here."""

import os
from pathlib import Path

import numpy as np
from ase.calculators.calculator import Calculator, all_changes


class Spring(Calculator):
    """Half the squared distance of the first atom from the origin, in eV and angstrom."""

    implemented_properties = ("energy", "forces")

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        first = atoms.positions[0]
        if first[0] > 50.0:
            os._exit(9)
        if first[0] < 0.0:
            raise ValueError("left of the origin")
        self.results = {"energy": 0.5 * float(first @ first), "forces": np.zeros((len(atoms), 3))}
        self.results["forces"][0] = -first


class Blind(Spring):
    """The same without forces."""

    implemented_properties = ("energy",)


class Counting(Spring):
    """The same; every evaluation adds a byte to a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        with Path(self.path).open("ab") as file:
            file.write(b".")
        super().calculate(atoms, properties, system_changes)


class Bonds(Calculator):
    """Springs between all pairs of atoms at their distances in a molecule, in eV and angstrom."""

    implemented_properties = ("energy", "forces")
    default_parameters = {"stiffness": 1.0}  # noqa: RUF012

    def __init__(self, molecule, stiffness: float = 30.0) -> None:
        super().__init__(stiffness=stiffness)
        self._distances = _distances(molecule.positions * 10.0)

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes) -> None:
        super().calculate(atoms, properties, system_changes)
        there = atoms.positions
        found = _distances(there)
        excess = found - self._distances
        stiffness = self.parameters["stiffness"]
        slope = stiffness * excess / (found + np.eye(len(there)))
        forces = -(slope[:, :, None] * (there[:, None] - there[None])).sum(1)
        self.results = {"energy": 0.25 * stiffness * float((excess**2).sum()), "forces": forces}


def _distances(positions: np.ndarray) -> np.ndarray:
    return np.linalg.norm(positions[:, None] - positions[None], axis=-1)


def broken() -> Calculator:
    raise RuntimeError("no licence")


def no_calculator() -> int:
    return 3
