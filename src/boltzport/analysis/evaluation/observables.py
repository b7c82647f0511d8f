"""Observables of a target: pairs of backbone torsions of a peptide, or the first two coordinates of a toy."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from boltzport.core.layout import Layout
from boltzport.core.units import thermal_energy
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget


class Pair(NamedTuple):
    """Columns of phi and psi of a residue, such as `ALA2`."""

    name: str
    phi: int
    psi: int


@dataclass(frozen=True, kw_only=True)
class Observables:
    """Observables of a target.

    Attributes:
        layout: The coordinates.
        names: Names of the coordinates.
        pairs: Residues that have both phi and psi.
        torsions: Columns of all named torsions: phi, psi, omega, chi.
        plane: Two columns whose joint density is evaluated; None for a molecule, whose first two coordinates are bond
            lengths, and for a single coordinate.
        temperature: Temperature in K for a molecule, 1 for a toy.
        thermal_energy: kT in kJ/mol for a molecule, 1 for a toy.
    """

    layout: Layout
    names: tuple[str, ...]
    pairs: tuple[Pair, ...]
    torsions: tuple[int, ...]
    plane: tuple[int, int] | None
    temperature: float
    thermal_energy: float


def observables(target: Target) -> Observables:
    """Observables of a target: the named torsions of a molecule, or two coordinates of another target."""
    named: dict[str, int] = {}
    names = tuple(f"coordinate {number}" for number in range(len(target.layout)))
    temperature, energy = 1.0, 1.0
    if isinstance(target, BoltzmannTarget):
        names = tuple(column.name for column in target.molecule.coordinates.columns)
        named = {name: number for number, name in enumerate(names) if _is_named(name)}
        temperature = target.molecule.temperature
        energy = thermal_energy(temperature)
    pairs = []
    for name, number in named.items():
        residue, _, torsion = name.partition(".")
        if torsion == "phi" and f"{residue}.psi" in named:
            pairs.append(Pair(residue, number, named[f"{residue}.psi"]))
    return Observables(
        layout=target.layout,
        names=names,
        pairs=tuple(pairs),
        torsions=tuple(named.values()),
        plane=None if isinstance(target, BoltzmannTarget) or len(target.layout) < 2 else (0, 1),
        temperature=temperature,
        thermal_energy=energy,
    )


def to_known(target: Target, coordinates: Tensor) -> Tensor:
    """Convert the coordinates of a flow to those of the user: internal coordinates, for a molecule."""
    return target.internal(coordinates) if isinstance(target, BoltzmannTarget) else coordinates


def from_known(target: Target, coordinates: Tensor) -> Tensor:
    """Convert the coordinates of the user to those of a flow."""
    return target.from_internal(coordinates) if isinstance(target, BoltzmannTarget) else coordinates


def is_circle(layout: Layout, column: int) -> bool:
    """Whether the range of a coordinate is a full turn."""
    axis = layout[column]
    return math.isclose(axis.upper - axis.lower, axis.period)


def _is_named(name: str) -> bool:
    torsion = name.partition(".")[2]
    return torsion in ("phi", "psi", "omega") or (torsion.startswith("chi") and torsion[3:].isdigit())
