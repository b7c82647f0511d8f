"""Observables of a target: pairs of torsions of a molecule, or the first two coordinates of a toy."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from boltzport.analysis.metrics import informative_pairs
from boltzport.core.layout import Layout
from boltzport.core.units import thermal_energy
from boltzport.targets import Target
from boltzport.targets.boltzmann import BoltzmannTarget, rotors


class Pair(NamedTuple):
    """Columns of two torsions: phi and psi of a residue, such as `ALA2`, or two others, joined by `_`."""

    name: str
    first: int
    second: int


@dataclass(frozen=True, kw_only=True)
class Observables:
    """Observables of a target.

    Attributes:
        layout: The coordinates.
        names: Names of the coordinates.
        pairs: Residues that have both phi and psi; of a molecule without any, the pairs of torsions with the most
            information.
        backbone: Whether the pairs are phi and psi.
        torsions: Columns of all named torsions: phi, psi, omega, chi; of a molecule without pairs of phi and psi,
            those that turn.
        rotamers: Columns of the torsions whose sectors are the basins of a molecule without phi and psi.
        plane: Two columns whose joint density is evaluated; None for a molecule, whose first two coordinates are bond
            lengths, and for a single coordinate.
        temperature: Temperature in K for a molecule, 1 for a toy.
        thermal_energy: kT in kJ/mol for a molecule, 1 for a toy.
    """

    layout: Layout
    names: tuple[str, ...]
    pairs: tuple[Pair, ...]
    backbone: bool
    rotamers: tuple[int, ...]
    torsions: tuple[int, ...]
    plane: tuple[int, int] | None
    temperature: float
    thermal_energy: float

    @property
    def has_basins(self) -> bool:
        """Whether samples have a basin."""
        return self.backbone or bool(self.rotamers)


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
    torsions, rotamers = tuple(named.values()), tuple[int, ...]()
    if isinstance(target, BoltzmannTarget) and not pairs:
        turning = rotors(target.molecule)
        # With one telling torsion, or none, the symmetric ones are shown beside it.
        torsions = turning.telling if len(turning.telling) > 1 else turning.telling + turning.symmetric
        rotamers = turning.telling
    return Observables(
        layout=target.layout,
        names=names,
        pairs=tuple(pairs),
        backbone=bool(pairs),
        rotamers=rotamers,
        torsions=torsions,
        plane=None if isinstance(target, BoltzmannTarget) or len(target.layout) < 2 else (0, 1),
        temperature=temperature,
        thermal_energy=energy,
    )


def with_pairs(seen: Observables, coordinates: np.ndarray, weights: np.ndarray) -> Observables:
    """The same observables with the most informative pairs of torsions, for a molecule without phi and psi.

    Args:
        seen: Observables of a target.
        coordinates: Coordinates of some samples.
        weights: Their weights.
    """
    if seen.backbone or len(seen.torsions) < 2 or not weights.sum() > 0.0:
        return seen
    columns = seen.torsions
    found = informative_pairs(coordinates[:, list(columns)].astype(np.float64), weights)
    residues = {atom.partition(".")[0] for place in columns for atom in seen.names[place].split("-")}
    short = {place: seen.names[place] for place in columns}
    if len(residues) == 1:
        short = {place: name.replace(f"{next(iter(residues))}.", "") for place, name in short.items()}
    pairs = [(columns[pair.first], columns[pair.second]) for pair in found]
    return replace(seen, pairs=tuple(Pair(f"{short[one]}_{short[two]}", one, two) for one, two in pairs))


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
