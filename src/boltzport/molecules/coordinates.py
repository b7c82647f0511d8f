"""Internal coordinates <-> Cartesian positions, batched and differentiable, with the log-determinant.

Convention. The log-determinant is that of the volume element of all 3N Cartesian coordinates,

    dx_1 ... dx_N = exp(log_det) dX dR d(bonds) d(angles) d(torsions),
    log_det = sum over bonds of 2 log b  +  sum over angles of log sin(theta),

with X the position of the root atom and R the orientation of the molecule, measured by the Haar measure
dR = d(cos beta) d(alpha) d(gamma) of the rotation group (volume 8 pi^2). An energy does not depend on X
and R, so a density over internal coordinates divided by exp(log_det) is, up to that constant volume, the
density over positions. A constrained bond is a constant and not a coordinate; its 2 log b stays in the sum,
so that values are comparable between molecules with and without constraints.

`to_cartesian` fixes the external degrees of freedom by the first three atoms of the z-matrix: the root is at
the origin, the second atom on the positive x axis, and the third in the xy plane with y >= 0.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.molecules.columns import Column, Side, bond_of, columns
from boltzport.molecules.placement import Measures, Plan, measure, place, plan
from boltzport.molecules.zmatrix import ZMatrix


class Cartesian(NamedTuple):
    """Positions in nm in the molecule's atom order, and log |d positions / d coordinates|."""

    positions: Float[Tensor, "batch atoms 3"]
    log_det: Float[Tensor, " batch"]


class Internal(NamedTuple):
    """Coordinates (free bonds in nm, then angles, then torsions in radian), and log |d coordinates / d positions|."""

    coordinates: Float[Tensor, "batch coordinates"]
    log_det: Float[Tensor, " batch"]


class CoordinateMap:
    """Bijection between a molecule's internal coordinates and its shape; device and dtype follow the input.

    Args:
        zmatrix: Z-matrix of the molecule.
        constrained: Length in nm of each constrained bond, by its pair of atoms (lower index first).
        signs: Fixed sign of the torsion that places an atom, by atom; it sets the range of the column.
        sides: Fixed side of the torsion about a double bond that places an atom, by atom; it sets the range too.

    Attributes:
        columns: Description of each coordinate.
        n_atoms: Number of atoms.
        dimension: Number of coordinates.
    """

    def __init__(
        self,
        zmatrix: ZMatrix,
        *,
        constrained: Mapping[tuple[int, int], float] | None = None,
        signs: Mapping[int, int] | None = None,
        sides: Mapping[int, Side] | None = None,
    ) -> None:
        constrained = constrained or {}
        self.columns: tuple[Column, ...] = columns(zmatrix, constrained=constrained, signs=signs or {}, sides=sides)
        self.n_atoms = zmatrix.n_atoms
        self.dimension = len(self.columns)
        pairs = [bond_of(row) for row in zmatrix.rows[1:]]
        free = [i for i, pair in enumerate(pairs) if pair not in constrained]
        fixed = [i for i, pair in enumerate(pairs) if pair in constrained]
        self._n_free = len(free)
        self._trans = [i for i, column in enumerate(self.columns) if column.upper > math.pi and column.lower > 0.0]
        cpu = torch.device("cpu")
        self._tensors = {
            cpu: _Tensors(
                plan=plan(zmatrix),
                free=torch.tensor(free, dtype=torch.long),
                order=torch.tensor(free + fixed).argsort(),
                lengths=torch.tensor([constrained[pairs[i]] for i in fixed], dtype=torch.float64),
            )
        }

    def to_cartesian(self, coordinates: Float[Tensor, "batch coordinates"]) -> Cartesian:
        """Convert internal coordinates to positions; the first three atoms fix the frame.

        Args:
            coordinates: Values in the order of `columns`, in nm and radian.
        """
        if coordinates.ndim != 2 or coordinates.shape[1] != self.dimension:
            raise InputError(
                f"expected internal coordinates of shape (batch, {self.dimension}), got {tuple(coordinates.shape)}"
            )
        measures = self._measures(coordinates.T.contiguous())
        positions = place(self._on(coordinates.device).plan, measures)
        return Cartesian(positions.permute(2, 1, 0).contiguous(), _log_volume(measures))

    def to_internal(self, positions: Float[Tensor, "batch atoms 3"]) -> Internal:
        """Convert positions to internal coordinates, for any position and orientation in space.

        Args:
            positions: Cartesian positions in nm, in the molecule's atom order.
        """
        if positions.ndim != 3 or positions.shape[1:] != (self.n_atoms, 3):
            raise InputError(f"expected positions of shape (batch, {self.n_atoms}, 3), got {tuple(positions.shape)}")
        tensors = self._on(positions.device)
        bonds, angles, torsions = measure(tensors.plan, positions.permute(2, 1, 0).contiguous())
        coordinates = torch.cat([bonds.index_select(0, tensors.free), angles, torsions])
        if self._trans:
            # A trans double bond has values around pi, not around both ends of (-pi, pi).
            places = torch.tensor(self._trans, device=coordinates.device)
            trans = coordinates.index_select(0, places)
            coordinates = coordinates.index_copy(0, places, torch.where(trans < 0.0, trans + 2 * math.pi, trans))
        return Internal(coordinates.T.contiguous(), -_log_volume(self._measures(coordinates)))

    def __repr__(self) -> str:
        return f"CoordinateMap(atoms={self.n_atoms}, dimension={self.dimension})"

    def _measures(self, coordinates: Tensor) -> Measures:
        """Measures of coordinates of shape (columns, batch), with the constrained bonds inserted."""
        sizes = [self._n_free, self.n_atoms - 2, self.n_atoms - 3]
        free, angles, torsions = torch.split_with_sizes(coordinates, sizes)
        if self._n_free == self.n_atoms - 1:
            return Measures(free, angles, torsions)
        tensors = self._on(coordinates.device)
        fixed = tensors.lengths.to(coordinates.dtype).unsqueeze(1).expand(-1, coordinates.shape[1])
        return Measures(torch.cat([free, fixed]).index_select(0, tensors.order), angles, torsions)

    def _on(self, device: torch.device) -> "_Tensors":
        if device not in self._tensors:
            self._tensors[device] = next(iter(self._tensors.values())).to(device)
        return self._tensors[device]


class _Tensors(NamedTuple):
    """Tensors of a map on one device: the plan, which bonds are free, and where free and fixed ones go."""

    plan: Plan
    free: Tensor
    order: Tensor
    lengths: Tensor

    def to(self, device: torch.device) -> "_Tensors":
        return _Tensors(
            plan=self.plan.to(device),
            free=self.free.to(device),
            order=self.order.to(device),
            lengths=self.lengths.to(device),
        )


def _log_volume(measures: Measures) -> Tensor:
    """Log of the volume element, (batch,), of measures of shape (rows, batch)."""
    # The floor keeps logarithms and their gradients finite where a bond or a sine vanishes. Near pi the sine is
    # computed from pi - theta, so that rounding cannot make it negative.
    floor = math.sqrt(torch.finfo(measures.angles.dtype).tiny)
    sine = torch.minimum(measures.angles, math.pi - measures.angles).sin().clamp_min(floor)
    return 2 * measures.bonds.clamp_min(floor).log().sum(0) + sine.log().sum(0)
