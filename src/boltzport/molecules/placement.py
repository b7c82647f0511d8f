"""Placement of atoms by distance, angle and torsion, and its inverse: the mathematics behind `CoordinateMap`.

A centre c has a frame of three unit vectors: z points from its axis atom b to c, x from the axis towards
the reference atom a, and y = z x x. A child d with distance r, angle theta = b-c-d and azimuth phi lies at

    d = c + r (sin(theta) (cos(phi) x + sin(phi) y) - cos(theta) z)

and its own frame follows by a rotation. Frames are propagated along the tree and never built from positions,
so that there is no division by a length that may vanish: values and gradients are finite at every angle.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.molecules.geometry import angle, distance, torsion
from boltzport.molecules.zmatrix import ZMatrix


class Level(NamedTuple):
    """Atoms at one depth of the tree, which are placed together.

    Attributes:
        start: Their first row in the z-matrix.
        stop: One past their last row.
        centres: Centre of each atom, as an index into the carriers of the level above.
        carriers: Number of leading atoms that include all atoms with children.
    """

    start: int
    stop: int
    centres: Int[Tensor, " atoms"]
    carriers: int


class Plan(NamedTuple):
    """A z-matrix as index tensors on one device; row i has bond i - 1, angle i - 2 and torsion i - 3.

    Attributes:
        atoms: Atom of each row except the first.
        centres: Centre of each row except the first.
        axes: Axis atom of each row except the first two.
        references: Reference atom of each row except the first three.
        first_child: For each row from the third on, index among these rows of the first child that its
            torsion is relative to; 0 (the third atom, whose azimuth is 0) for a first child.
        atom_order: Row of each atom.
        levels: Levels of the tree.
    """

    atoms: Int[Tensor, " bonds"]
    centres: Int[Tensor, " bonds"]
    axes: Int[Tensor, " angles"]
    references: Int[Tensor, " torsions"]
    first_child: Int[Tensor, " angles"]
    atom_order: Int[Tensor, " atoms"]
    levels: tuple[Level, ...]

    def to(self, device: torch.device) -> "Plan":
        """Return the plan on another device."""
        levels = tuple(level._replace(centres=level.centres.to(device)) for level in self.levels)
        return Plan(
            atoms=self.atoms.to(device),
            centres=self.centres.to(device),
            axes=self.axes.to(device),
            references=self.references.to(device),
            first_child=self.first_child.to(device),
            atom_order=self.atom_order.to(device),
            levels=levels,
        )


class Measures(NamedTuple):
    """Bonds (nm), angles and torsions (radian) in row order; the batch comes last."""

    bonds: Float[Tensor, "bonds batch"]
    angles: Float[Tensor, "angles batch"]
    torsions: Float[Tensor, "torsions batch"]


class _Frames(NamedTuple):
    """Frames of the centres of a level; each axis has shape (3, centres, batch)."""

    x: Tensor
    y: Tensor
    z: Tensor

    def take(self, centres: Tensor) -> "_Frames":
        return _Frames(*(axis.index_select(1, centres) for axis in self))

    def join(self, other: "_Frames") -> "_Frames":
        return _Frames(*(torch.cat(pair, dim=1) for pair in zip(self, other, strict=True)))


def plan(zmatrix: ZMatrix) -> Plan:
    """Build the index tensors of a z-matrix, on the CPU."""
    rows = zmatrix.rows
    row_of = {row.atom: i for i, row in enumerate(rows)}
    return Plan(
        atoms=torch.tensor([row.atom for row in rows[1:]]),
        centres=torch.tensor([row.centre for row in rows[1:]]),
        axes=torch.tensor([row.axis for row in rows[2:]]),
        references=torch.tensor([row.reference for row in rows[3:]], dtype=torch.long),
        first_child=torch.tensor(
            [row_of[row.reference] - 2 if row.sibling and row.reference is not None else 0 for row in rows[2:]]
        ),
        atom_order=torch.tensor([row_of[atom] for atom in range(len(rows))]),
        levels=tuple(_levels(zmatrix)),
    )


def place(plan: Plan, measures: Measures) -> Float[Tensor, "3 atoms batch"]:
    """Place all atoms, level by level: root at the origin, second atom on x, third in the xy plane.

    Coordinates come first and the batch last, so that every operation is one long loop over the batch.
    """
    bonds, angles, torsions = measures
    torsions = torch.cat([torch.zeros_like(bonds[:1]), torsions])
    azimuths = torsions + torsions.index_select(0, plan.first_child)
    sin_angle, cos_angle = angles.sin(), angles.cos()
    sin_azimuth, cos_azimuth = azimuths.sin(), azimuths.cos()
    x, y, z = torch.eye(3, dtype=bonds.dtype, device=bonds.device)[..., None, None].expand(3, 3, 1, bonds.shape[1])

    second = bonds[:1] * x
    placed = [torch.zeros_like(second), second]
    # The root is the only centre of the first level; its axis atom is the second atom.
    centres, frames = placed[0], _Frames(x=y, y=-z, z=-x)
    for level in plan.levels:
        rows, k = slice(level.start - 2, level.stop - 2), level.carriers
        sin, cos, sin_turn, cos_turn = sin_angle[rows], cos_angle[rows], sin_azimuth[rows], cos_azimuth[rows]
        frame = frames.take(level.centres)
        radial = cos_turn * frame.x + sin_turn * frame.y
        outward = sin * radial - cos * frame.z
        here = centres.index_select(1, level.centres) + bonds[level.start - 1 : level.stop - 1] * outward
        placed.append(here)
        centres = here[:, :k]
        frames = _Frames(
            x=-sin[:k] * frame.z[:, :k] - cos[:k] * radial[:, :k],
            y=cos_turn[:k] * frame.y[:, :k] - sin_turn[:k] * frame.x[:, :k],
            z=outward[:, :k],
        )
        if level.start == 2:
            # The second atom is a centre of the second level too; its axis atom is the root.
            centres = torch.cat([second, centres], dim=1)
            frames = _Frames(x=y, y=z, z=x).join(frames)
    return torch.cat(placed, dim=1).index_select(1, plan.atom_order)


def measure(plan: Plan, positions: Float[Tensor, "3 atoms batch"]) -> Measures:
    """Bonds, angles and torsions, each (rows, batch), for any position and orientation in space."""
    indices = (plan.atoms, plan.centres, plan.axes, plan.references)
    atoms, centres, axes, references = (positions.index_select(1, index) for index in indices)
    return Measures(
        bonds=distance(centres, atoms),
        angles=angle(axes, centres[:, 1:], atoms[:, 1:]),
        torsions=torsion(references, axes[:, 1:], centres[:, 2:], atoms[:, 2:]),
    )


def _levels(zmatrix: ZMatrix) -> list[Level]:
    carriers = {row.centre for row in zmatrix.rows}
    slots = {zmatrix.rows[0].atom: 0}
    levels = []
    start = 2
    while start < zmatrix.n_atoms:
        rows = [row for row in zmatrix.rows[start:] if row.depth == zmatrix.rows[start].depth]
        centres = torch.tensor([slots[row.centre] for row in rows if row.centre is not None])
        last = max((i for i, row in enumerate(rows) if row.atom in carriers), default=-1)
        levels.append(Level(start, start + len(rows), centres, last + 1))
        # The second atom has row 1 but is a centre of the second level.
        slots = {row.atom: i for i, row in enumerate([zmatrix.rows[1], *rows] if start == 2 else rows)}
        start += len(rows)
    return levels
