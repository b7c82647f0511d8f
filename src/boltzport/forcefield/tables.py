"""Constants of a kernel: parameters on a device and in a precision, in the order in which they are read."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.forcefield.parameters import Born, Neck, Nonbonded

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class PairTables:
    """All pairs of atoms, and for every atom its partners.

    Attributes:
        nonbonded: every pair, excluded ones with zero parameters.
        others: for every atom all the others.
        pair_of: the pair that an atom and its partner form.
        direction_of: the same in a list where every pair stands twice: for all pairs the first atom
            descreened by the second, then for all pairs the second by the first.
    """

    nonbonded: Nonbonded
    others: Int[Tensor, "atoms others"]
    pair_of: Int[Tensor, "atoms others"]
    direction_of: Int[Tensor, "atoms others"]


@dataclass(frozen=True, kw_only=True)
class Direction:
    """Descreening of one atom of every pair by the other; see ``Born`` and ``Neck``."""

    offset_radius: Float[Tensor, " pairs"]
    scaled_radius: Float[Tensor, " pairs"]
    neck_distance: Float[Tensor, " pairs"] | None
    neck_height: Float[Tensor, " pairs"] | None
    neck_cutoff: Float[Tensor, " pairs"] | None


@dataclass(frozen=True, kw_only=True)
class BornTables:
    """What generalized Born reads by pairs.

    Attributes:
        charges: product of the two charges, squared elementary charges.
        first: the first atom descreened by the second.
        second: the second atom descreened by the first.
        everyone: one between different atoms, zero of an atom with itself.
    """

    charges: Float[Tensor, " pairs"]
    first: Direction
    second: Direction
    everyone: Float[Tensor, "atoms atoms"]


def spread(tensor: Tensor) -> Tensor:
    """The same values, no two of them adjacent in memory.

    The compiler vectorises along the last axis in which any operand is contiguous. This must be the axis of
    configurations, so no table of constants may be contiguous along another.
    """
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


def convert(record: Record, device: torch.device, dtype: torch.dtype) -> Record:
    """The record (and records inside it) on a device, its real tensors in a precision, spread."""
    changes: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            changes[field.name] = spread(
                value.to(device, dtype if value.is_floating_point() else value.dtype)
            )
        elif is_dataclass(value):
            changes[field.name] = convert(value, device, dtype)
    return replace(record, **changes)  # type: ignore[type-var]


def pair_tables(atoms: int, nonbonded: Nonbonded | None) -> PairTables:
    """Tables over all pairs of ``atoms`` atoms."""
    i, j = torch.triu_indices(atoms, atoms, 1)
    values = torch.zeros(3, atoms, atoms, dtype=torch.float64)
    if nonbonded is not None:
        values[:, nonbonded.atoms[:, 0], nonbonded.atoms[:, 1]] = torch.stack(
            [nonbonded.coulomb, nonbonded.c6, nonbonded.c12]
        )
    coulomb, c6, c12 = values[:, i, j]
    everyone = torch.arange(atoms).expand(atoms, atoms)
    others = everyone[~torch.eye(atoms, dtype=torch.bool)].reshape(atoms, atoms - 1)
    number = torch.zeros(atoms, atoms, dtype=torch.long)
    number[i, j] = number[j, i] = torch.arange(len(i))
    pair_of = number.gather(1, others)
    return PairTables(
        nonbonded=Nonbonded(atoms=torch.stack([i, j], dim=1), coulomb=coulomb, c6=c6, c12=c12),
        others=others,
        pair_of=pair_of,
        direction_of=torch.where(others > torch.arange(atoms)[:, None], pair_of, pair_of + len(i)),
    )


def born_tables(born: Born, pairs: Int[Tensor, "pairs 2"]) -> BornTables:
    """Tables of a generalized Born model over pairs of atoms."""
    i, j = pairs.unbind(1)

    def direction(subject: Tensor, other: Tensor) -> Direction:
        neck: Neck | None = born.neck
        return Direction(
            offset_radius=born.offset_radius[subject],
            scaled_radius=born.scaled_radius[other],
            neck_distance=None if neck is None else neck.distance[subject, other],
            neck_height=None if neck is None else neck.height[subject, other],
            neck_cutoff=None if neck is None else neck.cutoff[subject, other],
        )

    atoms = len(born.charge)
    return BornTables(
        charges=born.charge[i] * born.charge[j],
        first=direction(i, j),
        second=direction(j, i),
        everyone=1.0 - torch.eye(atoms, dtype=torch.float64),
    )


def slots_of(atoms: int, slots: Int[Tensor, " slots"]) -> Int[Tensor, "atoms most"]:
    """For every atom the slots that act on it, filled up with the number of slots."""
    lists = [torch.nonzero(slots == atom)[:, 0] for atom in range(atoms)]
    most = max((len(entries) for entries in lists), default=0)
    table = torch.full((atoms, most), len(slots), dtype=torch.long)
    for row, entries in zip(table, lists, strict=True):
        row[: len(entries)] = entries
    return table
