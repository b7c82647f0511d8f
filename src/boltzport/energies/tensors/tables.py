"""Constants of a kernel: parameters on a device and in a precision, in the order of access."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.energies.tensors.parameters import Born, Nonbonded

Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class PairTables:
    """All pairs of atoms.

    Attributes:
        nonbonded: every pair, excluded ones with zero parameters.
        pair_of: index of the pair formed by two atoms; the diagonal is not used.
        distinct: one between different atoms, zero between an atom and itself.
    """

    nonbonded: Nonbonded
    pair_of: Int[Tensor, "atoms atoms"]
    distinct: Float[Tensor, "atoms atoms"]


@dataclass(frozen=True, kw_only=True)
class BornTables:
    """Pair tables of generalized Born.

    Attributes:
        charges: product of the two charges, squared elementary charges.
        inverse_offset_radius: inverse offset radius of each atom in 1/nm.
    """

    charges: Float[Tensor, " pairs"]
    inverse_offset_radius: Float[Tensor, " atoms"]


def spread(tensor: Tensor) -> Tensor:
    """Return the same values, no two of them adjacent in memory.

    The compiler vectorises along the last axis in which any operand is contiguous. This must be the axis of
    configurations, so no table of constants may be contiguous along another.
    """
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


def convert(record: Record, device: torch.device, dtype: torch.dtype) -> Record:
    """Move a record (and nested records) to a device, with its real tensors in a precision and spread."""
    changes: dict[str, Any] = {}
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if isinstance(value, Tensor):
            changes[field.name] = spread(value.to(device, dtype if value.is_floating_point() else value.dtype))
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
    pair_of = torch.zeros(atoms, atoms, dtype=torch.long)
    pair_of[i, j] = pair_of[j, i] = torch.arange(len(i))
    return PairTables(
        nonbonded=Nonbonded(atoms=torch.stack([i, j], dim=1), coulomb=coulomb, c6=c6, c12=c12),
        pair_of=pair_of,
        distinct=1.0 - torch.eye(atoms, dtype=torch.float64),
    )


def born_tables(born: Born, pairs: Int[Tensor, "pairs 2"]) -> BornTables:
    """Tables of a generalized Born model over pairs of atoms."""
    i, j = pairs.unbind(1)
    return BornTables(charges=born.charge[i] * born.charge[j], inverse_offset_radius=1.0 / born.offset_radius)


def slots_of(atoms: int, slots: Int[Tensor, " slots"]) -> Int[Tensor, "atoms most"]:
    """For every atom, the slots that act on it, padded with the number of slots."""
    lists = [torch.nonzero(slots == atom)[:, 0] for atom in range(atoms)]
    most = max((len(entries) for entries in lists), default=0)
    table = torch.full((atoms, most), len(slots), dtype=torch.long)
    for row, entries in zip(table, lists, strict=True):
        row[: len(entries)] = entries
    return table
