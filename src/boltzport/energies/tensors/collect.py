"""Collect the terms of several forces into one record of each kind, and merge terms where possible."""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.energies.tensors.parameters import (
    CMAP,
    Angles,
    Bonds,
    Born,
    FourierTorsions,
    Impropers,
    Nonbonded,
    Parameters,
)

Four = tuple[int, ...]


def _real(values: object) -> Tensor:
    return torch.tensor(np.array(values, dtype=np.float64))


def _whole(values: object) -> Tensor:
    return torch.tensor(np.array(values, dtype=np.int64))


class Series:
    """Fourier series of dihedrals; terms over the same four atoms, in either direction, are merged."""

    def __init__(self) -> None:
        self._amplitudes: defaultdict[Four, defaultdict[int, complex]] = defaultdict(lambda: defaultdict(complex))
        self._constant = 0.0

    def _add(self, atoms: Four, order: int, amplitude: complex) -> None:
        if order == 0:
            self._constant += amplitude.real
        elif amplitude != 0:
            # A dihedral read backwards is the same angle, sign included.
            self._amplitudes[min(atoms, atoms[::-1])][order] += amplitude

    def add_cosine(self, atoms: Four, order: int, phase: float, stiffness: float) -> None:
        """Add ``k (1 + cos(n phi - phase))``."""
        self._constant += stiffness
        self._add(atoms, order, complex(stiffness * math.cos(phase), stiffness * math.sin(phase)))

    def add_powers(self, atoms: Four, coefficients: Sequence[float]) -> None:
        """Add ``sum_n c_n cos(phi - pi)^n``, in which trans is zero."""
        series = np.polynomial.chebyshev.poly2cheb([c * (-1) ** n for n, c in enumerate(coefficients)])
        for order, amplitude in enumerate(series):
            self._add(atoms, order, complex(amplitude))

    def record(self) -> FourierTorsions | None:
        """Return all series, with as many orders as the longest one; ``None`` if there are none."""
        if not self._amplitudes and self._constant == 0.0:
            return None
        atoms = sorted(self._amplitudes)
        orders = max((max(series) for series in self._amplitudes.values()), default=0)
        table = np.zeros((len(atoms), orders), dtype=complex)
        for row, key in zip(table, atoms, strict=True):
            for order, amplitude in self._amplitudes[key].items():
                row[order - 1] = amplitude
        return FourierTorsions(
            atoms=_whole(atoms).reshape(-1, 4),
            cosine=_real(table.real),
            sine=_real(table.imag),
            constant=self._constant,
        )


class Collected:
    """The terms collected so far, for a number of atoms."""

    def __init__(self, atoms: int) -> None:
        self.bonds: list[tuple[int, int, float, float]] = []
        self.angles: list[tuple[int, int, int, float, float]] = []
        self.torsions = Series()
        self.rb_torsions = Series()
        self.cmaps: list[tuple[tuple[int, int], Four]] = []
        self._impropers: list[tuple[Four, float, float]] = []
        self._periodic: set[bool] = set()
        self._patches: list[np.ndarray] = []
        self._atoms = atoms
        self._pairs = np.zeros((3, atoms, atoms))
        self._born: Born | None = None

    def add_improper(self, atoms: Four, angle: float, stiffness: float, *, periodic: bool) -> None:
        """Add ``k (phi - angle)^2``, with a periodic difference or not."""
        self._impropers.append((atoms, angle, stiffness))
        self._periodic.add(periodic)

    def add_map(self, coefficients: Float[np.ndarray, "size size 4 4"]) -> tuple[int, int]:
        """Add a map; returns the row at which it starts and its size."""
        start = sum(len(patches) for patches in self._patches)
        size = len(coefficients)
        self._patches.append(coefficients.reshape(size * size, 4, 4))
        return start, size

    def add_pairs(self, coulomb: np.ndarray, c6: np.ndarray, c12: np.ndarray) -> None:
        """Add interactions of all pairs, given as symmetric matrices."""
        self._pairs += np.stack([coulomb, c6, c12])

    def add_pair(self, i: int, j: int, *, c6: float, c12: float) -> None:
        """Add a Lennard-Jones interaction of one pair."""
        self._pairs[1:, min(i, j), max(i, j)] += (c6, c12)

    def set_born(self, born: Born) -> None:
        """Set the solvent; only one is allowed."""
        if self._born is not None:
            raise InputError("the system has two generalized Born forces; expected at most one")
        self._born = born

    def parameters(self) -> Parameters:
        """Return all terms as records; terms with zero strength are dropped."""
        bonds = [bond for bond in self.bonds if bond[-1] != 0.0]
        angles = [angle for angle in self.angles if angle[-1] != 0.0]
        return Parameters(
            atoms=self._atoms,
            bonds=Bonds(
                atoms=_whole([bond[:2] for bond in bonds]),
                length=_real([bond[2] for bond in bonds]),
                stiffness=_real([bond[3] for bond in bonds]),
            )
            if bonds
            else None,
            angles=Angles(
                atoms=_whole([angle[:3] for angle in angles]),
                angle=_real([angle[3] for angle in angles]),
                stiffness=_real([angle[4] for angle in angles]),
            )
            if angles
            else None,
            torsions=self.torsions.record(),
            rb_torsions=self.rb_torsions.record(),
            impropers=self._improper_record(),
            cmap=self._cmap_record(),
            nonbonded=self._pair_record(),
            born=self._born,
        )

    def _improper_record(self) -> Impropers | None:
        if not self._impropers:
            return None
        if len(self._periodic) > 1:
            raise InputError("the system has harmonic impropers with and without periodicity; use OpenMMEnergy")
        atoms, angle, stiffness = zip(*self._impropers, strict=True)
        return Impropers(
            atoms=_whole(atoms),
            angle=_real(angle),
            stiffness=_real(stiffness),
            periodic=self._periodic == {True},
        )

    def _cmap_record(self) -> CMAP | None:
        if not self.cmaps:
            return None
        maps, atoms = zip(*self.cmaps, strict=True)
        return CMAP(
            first=_whole([eight[:4] for eight in atoms]),
            second=_whole([eight[4:] for eight in atoms]),
            table=_whole([start for start, _ in maps]),
            size=_whole([size for _, size in maps]),
            coefficients=_real(np.concatenate(self._patches)),
        )

    def _pair_record(self) -> Nonbonded | None:
        i, j = np.triu_indices(self._atoms, 1)
        values = self._pairs[:, i, j]
        present = np.any(values != 0.0, axis=0)
        if not present.any():
            return None
        coulomb, c6, c12 = values[:, present]
        return Nonbonded(
            atoms=_whole(np.stack([i[present], j[present]], axis=1)),
            coulomb=_real(coulomb),
            c6=_real(c6),
            c12=_real(c12),
        )
