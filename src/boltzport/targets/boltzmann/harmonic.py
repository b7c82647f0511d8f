"""Coordinates in which a molecule's stiff motions are independent, so that a flow need not learn their couplings.

At the reference structure the stiff coordinates fluctuate with the covariance kT H^-1. Each of those that can make a
full turn (omega) is shifted by the sines of those before it. The local ones (bonds, angles, torsions of siblings) are
shifted by the sines of the turning ones, and mixed so that they are independent with unit variance. For small
deviations this is a factor of the covariance; for large ones it is still a bijection, with a constant determinant.
Free rotations are not transformed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.files import write_atomically
from boltzport.core.layout import Axis, Layout, circle, interval
from boltzport.core.tensors import to_safetensors
from boltzport.molecules import Column, Molecule
from boltzport.targets.boltzmann.stiffness import FLAT, PUCKER, large_ring_torsions, stiffness, with_reference

MARGIN = 1.1
"""Width of the base density, relative to the harmonic approximation."""
REACH = 6.5
"""Half the range of an independent local coordinate, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class HarmonicMap:
    """Bijection between independent and internal coordinates; both have the same order.

    Attributes:
        turning: Indices of the stiff coordinates that can make a full turn.
        local: Indices of the other stiff coordinates.
        centre: Reference values of the turning ones, then of the local ones.
        order: Shifts of the turning coordinates by the sines of those before them, strictly lower triangular.
        shift: Shifts of the local coordinates by the sines of the turning ones.
        mixing: Matrix from independent local coordinates to deviations.
    """

    turning: Int[Tensor, " turning"]
    local: Int[Tensor, " local"]
    centre: Float[Tensor, " stiff"]
    order: Float[Tensor, "turning turning"]
    shift: Float[Tensor, "local turning"]
    mixing: Float[Tensor, "local local"]

    @property
    def log_det(self) -> float:
        """Log of the volume of internal coordinates per unit of independent ones."""
        return float(torch.linalg.slogdet(self.mixing).logabsdet)

    def widened(self, factor: float) -> "HarmonicMap":
        """The map with local coordinates whose fluctuations are larger by a factor, about the same centres."""
        return replace(self, mixing=factor * self.mixing)

    def to_internal(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Transform independent to internal coordinates."""
        centre, order, shift, mixing = self._parts(coordinates)
        turns, locals_ = (places.to(coordinates.device) for places in (self.turning, self.local))
        cut = len(turns)
        sines = (coordinates[:, turns] - centre[:cut]).sin()
        turning = coordinates[:, turns] + sines @ order.T
        local = centre[cut:] + coordinates[:, locals_] @ mixing.T + sines @ shift.T
        return coordinates.index_copy(1, turns, turning).index_copy(1, locals_, local)

    def to_independent(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Transform internal to independent coordinates."""
        centre, order, shift, mixing = self._parts(coordinates)
        cut = len(self.turning)
        columns: list[Tensor] = []
        sines = coordinates.new_zeros(len(coordinates), 0)
        for i, place in enumerate(self.turning.tolist()):
            columns.append(coordinates[:, place] - sines @ order[i, :i])
            sines = torch.cat([sines, (columns[-1] - centre[i]).sin()[:, None]], 1)
        deviation = coordinates[:, self.local] - centre[cut:]
        # Torsions are given modulo a full turn, and a local one is less than half a turn from its centre.
        turns = torch.round(deviation / (2 * math.pi)) * 2 * math.pi
        local = torch.linalg.solve(mixing, (deviation - turns - sines @ shift.T).T).T
        result = coordinates.index_copy(1, self.local, local)
        return result.index_copy(1, self.turning, torch.stack(columns, 1)) if columns else result

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        content = to_safetensors(dict(vars(self)))
        write_atomically(path, lambda file: file.write(content))

    @classmethod
    def load(cls, path: Path) -> "HarmonicMap":
        """Read a file written by `save`."""
        try:
            return cls(**safetensors.torch.load_file(path))
        except (safetensors.SafetensorError, TypeError, OSError) as error:
            raise InputError(f"{path} is damaged: {' '.join(str(error).split())}; restore it") from error

    def _parts(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        parts = (self.centre, self.order, self.shift, self.mixing)
        centre, order, shift, mixing = (part.to(like) for part in parts)
        return centre, order, shift, mixing


@dataclass(frozen=True, kw_only=True)
class Space:
    """A layout of a molecule's coordinates, and its map to internal coordinates; None if they are the same."""

    layout: Layout
    map: HarmonicMap | None


def harmonic_space(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Space:
    """Independent coordinates of a molecule, and their base density.

    Args:
        molecule: Molecule with its reference structure.
        energy: Energy in kJ/mol of positions in nm, differentiable.
    """
    pairs = with_reference(molecule)
    indices, covariance = stiffness(molecule, energy)
    # A large ring stays closed only if its torsions move together, as in the directions of the second derivatives.
    ring = set(large_ring_torsions(molecule))
    # A pucker has a second minimum, which second derivatives at the first do not show: it is not transformed.
    puckers = [i for i in indices if _turns(pairs[i][0]) and i not in ring and abs(math.sin(pairs[i][1])) > FLAT]
    turning = [i for i in indices if _turns(pairs[i][0]) and i not in puckers and i not in ring]
    local = [i for i in indices if i not in turning and i not in puckers]
    places = [indices.index(i) for i in turning + local]
    chosen = covariance[np.ix_(places, places)]
    cut = len(turning)
    # Cholesky factor with the turning ones first: its columns are the shifts, in units of their own widths.
    factor = np.linalg.cholesky(chosen)
    widths = np.diagonal(factor)[:cut]
    order = factor[:cut, :cut] / widths - np.eye(cut)
    shift = factor[cut:, :cut] / widths
    remaining = factor[cut:, cut:] @ factor[cut:, cut:].T
    map_ = HarmonicMap(
        turning=torch.tensor(turning, dtype=torch.long),
        local=torch.tensor(local, dtype=torch.long),
        centre=torch.tensor([pairs[i][1] for i in turning + local], dtype=torch.float64),
        order=torch.from_numpy(np.tril(order, -1).copy()),
        shift=torch.from_numpy(shift.copy()),
        mixing=torch.from_numpy(_symmetric_root(remaining)),
    )
    base = {place: MARGIN * width for place, width in zip(turning, widths, strict=True)}
    for k, place in enumerate(indices):
        if place in puckers:
            base[place] = max(PUCKER, MARGIN * math.sqrt(covariance[k, k]))
    axes: list[Axis] = []
    for i, (column, value) in enumerate(pairs):
        if i in local:
            axes.append(interval(-REACH, REACH, centre=0.0, width=MARGIN))
        elif i in base:
            axes.append(_whole_turn(value, base[i])._replace(order=_order(column)))
        else:
            axes.append(circle(column.lower, column.upper, period=2 * math.pi)._replace(order=_order(column)))
    return Space(layout=Layout(axes), map=map_)


def _turns(column: Column) -> bool:
    """Whether a stiff coordinate has a second minimum half a turn away, as omega has.

    The sibling of a flat centre does not: there it would coincide with the first child.
    """
    return column.circular and not column.sibling


def _order(column: Column) -> float:
    """Order of the turning coordinates: backbone, side chains, then others such as methyl groups."""
    name = column.name.rpartition(".")[2]
    return 0.0 if name in ("phi", "psi", "omega") else 1.0 if name.startswith("chi") else 2.0


def _whole_turn(value: float, width: float) -> Axis:
    """Range of a full turn, cut opposite to the reference."""
    return interval(value - math.pi, value + math.pi, centre=value, width=width, period=2 * math.pi)


def _symmetric_root(covariance: np.ndarray) -> np.ndarray:
    """Square root of a covariance that changes each coordinate least: widths times a root of the correlations."""
    widths = np.sqrt(np.diagonal(covariance))
    values, vectors = np.linalg.eigh(covariance / np.outer(widths, widths))
    return np.asarray(widths[:, None] * ((vectors * np.sqrt(values)) @ vectors.T))
