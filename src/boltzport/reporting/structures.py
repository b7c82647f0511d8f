"""Structures for the viewer: PDB text with the positions of a sample."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.analysis.metrics import Interval
from boltzport.core.errors import InputError
from boltzport.reporting.words import as_interval, as_number

MOST = 12
"""Maximum number of basins that are shown; a hexapeptide has hundreds."""


class Basin(NamedTuple):
    """A basin and, if it was visited, a structure of it as PDB text."""

    name: str
    population: float | None
    interval: Interval | None
    population_model: float | None
    population_reference: float | None
    free_energy: float | None
    free_energy_interval: Interval | None
    structure: str | None


def with_positions(pdb: str, positions: Float[np.ndarray, "atoms 3"]) -> str:
    """PDB text with its positions replaced; the new ones are in nm.

    Raises:
        InputError: The numbers of atoms differ.
    """
    lines = pdb.splitlines()
    places = [place for place, line in enumerate(lines) if line.startswith(("ATOM  ", "HETATM"))]
    if len(places) != len(positions):
        raise InputError(f"expected positions of {len(places)} atoms, as reference.pdb has, got {len(positions)}")
    for place, position in zip(places, positions, strict=True):
        x, y, z = (f"{10 * float(value):8.3f}" for value in position)
        lines[place] = f"{lines[place][:30]}{x}{y}{z}{lines[place][54:]}"
    return "\n".join(lines) + "\n"


def basins(
    records: Sequence[Mapping[str, Any]], pdb: str | None, positions: Float[np.ndarray, "basins atoms 3"] | None
) -> list[Basin]:
    """Basins of an evaluation, the most populated first, with their structures if there are any."""
    found = []
    for place, record in enumerate(records):
        structure = None
        at = record.get("representative")
        if pdb is not None and positions is not None and isinstance(at, int) and at < len(positions):
            aligned = superpose(positions[at], positions[0])
            structure = with_positions(pdb, aligned) if np.isfinite(aligned).all() else None
        found.append(
            Basin(
                name=str(record.get("name", place + 1)),
                population=as_number(record.get("population")),
                interval=as_interval(record.get("population_interval")),
                population_model=as_number(record.get("population_model")),
                population_reference=as_number(record.get("population_reference")),
                free_energy=as_number(record.get("free_energy")),
                free_energy_interval=as_interval(record.get("free_energy_interval")),
                structure=structure,
            )
        )
    return sorted(found, key=lambda basin: -(basin.population or 0.0))[:MOST]


def superpose(positions: Float[np.ndarray, "atoms 3"], onto: Float[np.ndarray, "atoms 3"]) -> np.ndarray:
    """Positions rotated and translated onto others, so that shapes can be compared by eye (Kabsch 1976)."""
    if not (np.isfinite(positions).all() and np.isfinite(onto).all()):
        return positions
    centred, reference = positions - positions.mean(0), onto - onto.mean(0)
    left, _, right = np.linalg.svd(centred.T @ reference)
    # A reflection would show the mirror image of the molecule.
    signs = np.diag([1.0, 1.0, np.sign(np.linalg.det(left @ right))])
    return np.asarray(centred @ left @ signs @ right)
