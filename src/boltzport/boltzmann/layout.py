"""Layouts of a molecule's internal coordinates: the paper's, and one that knows the force field."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from boltzport.layout import Axis, Layout, circle, interval
from boltzport.molecule import Column, Kind, Molecule
from boltzport.units import thermal_energy

PAPER_BOND = 0.07
"""Range of a bond in the paper, nm."""
PAPER_ANGLE = 0.5730 * math.pi
"""Range of an angle in the paper, radian; the paper gives it in units of pi."""
PAPER_WIDTH = 0.1
"""Width of the paper's base density, in units of the range."""

MARGIN = 1.3
"""How much wider than the harmonic approximation the informed base density is."""
REACH = 8.0
"""Half of the informed range of a bond or an angle, in widths."""
PUCKER = 0.5
"""Least width of the torsion of a ring that is not flat, radian: its other pucker lies 1.2 radian away."""
FLAT = 0.2
"""Sine of a torsion under which four atoms lie in a plane."""


def paper_layout(molecule: Molecule) -> Layout:
    """The paper's scaling, base density and half ranges; every torsion is a circle, also one whose range is halved."""
    return Layout(_paper_axis(column, value) for column, value in _with_reference(molecule))


def informed_layout(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Layout:
    """A layout whose base density has the widths that the force field gives stiff coordinates.

    Stiff are bonds, angles, the torsions of siblings, and torsions about bonds that do not turn: those of rings and
    those between two flat centres, as in an amide. In the harmonic approximation at the reference structure their
    widths are the square roots of the diagonal of kT H^-1, H the matrix of second derivatives. What rotates is uniform.

    Args:
        molecule: Molecule with its reference structure.
        energy: Energy in kJ/mol of positions in nm, differentiable.
    """
    pairs = _with_reference(molecule)
    rings = _ring_bonds(molecule)
    flat = _flat_centres(molecule)
    stiff = [i for i, (column, value) in enumerate(pairs) if _is_stiff(column, value, rings, flat)]
    widths = dict(zip(stiff, MARGIN * _harmonic_widths(molecule, energy, stiff), strict=True))
    axes = []
    for i, (column, value) in enumerate(pairs):
        if i not in widths:
            axes.append(circle(column.lower, column.upper, period=2 * math.pi))
            continue
        width = widths[i]
        if column.kind is Kind.TORSION and not column.sibling and abs(math.sin(value)) > FLAT:
            width = max(width, PUCKER)
        axes.append(_informed_axis(column, value, width))
    return Layout(axes)


def _paper_axis(column: Column, value: float) -> Axis:
    if column.kind is Kind.TORSION:
        return circle(column.lower, column.upper, period=2 * math.pi)
    length = PAPER_BOND if column.kind is Kind.BOND else PAPER_ANGLE
    lower, upper = max(value - length / 2, column.lower), min(value + length / 2, column.upper)
    return interval(lower, upper, centre=value, width=PAPER_WIDTH * length)


def _informed_axis(column: Column, value: float, width: float) -> Axis:
    if column.kind is Kind.TORSION:
        # The whole turn, cut opposite to the reference; or the half that the handedness allows.
        lower, upper = (value - math.pi, value + math.pi) if column.sign == 0 else (column.lower, column.upper)
        return interval(lower, upper, centre=value, width=width, period=2 * math.pi)
    lower, upper = max(value - REACH * width, column.lower), min(value + REACH * width, column.upper)
    return interval(max(lower, 0.5 * value) if column.kind is Kind.BOND else lower, upper, centre=value, width=width)


def _with_reference(molecule: Molecule) -> list[tuple[Column, float]]:
    positions = torch.from_numpy(molecule.positions)[None]
    values = molecule.coordinates.to_internal(positions).coordinates[0].tolist()
    return list(zip(molecule.coordinates.columns, values, strict=True))


def _is_stiff(column: Column, value: float, rings: set[frozenset[int]], flat: set[int]) -> bool:
    if column.kind is not Kind.TORSION:
        return True
    if column.sibling:
        # A pyramid of three neighbours (an amine) turns inside out.
        return column.sign != 0 or abs(math.sin(value)) < FLAT
    _, axis, centre, _ = column.atoms
    return frozenset((axis, centre)) in rings or (axis in flat and centre in flat)


def _ring_bonds(molecule: Molecule) -> set[frozenset[int]]:
    """Bonds that lie in a ring: those whose removal leaves the molecule connected."""
    neighbours = molecule.topology.neighbours
    found = set()
    for bond in molecule.topology.bonds:
        first, second = bond
        seen, frontier = {first}, [first]
        while frontier:
            atom = frontier.pop()
            for other in neighbours[atom]:
                if other not in seen and {atom, other} != {first, second}:
                    seen.add(other)
                    frontier.append(other)
        if second in seen:
            found.add(frozenset(bond))
    return found


def _flat_centres(molecule: Molecule) -> set[int]:
    """Atoms with three neighbours that lie in a plane with them."""
    flat = set()
    for atom, others in enumerate(molecule.topology.neighbours):
        if len(others) == 3:
            u, v, w = (molecule.positions[other] - molecule.positions[atom] for other in others)
            volume = abs(np.dot(u, np.cross(v, w)))
            if volume < FLAT * np.linalg.norm(u) * np.linalg.norm(v) * np.linalg.norm(w):
                flat.add(atom)
    return flat


def _harmonic_widths(molecule: Molecule, energy: Callable[[Tensor], Tensor], stiff: list[int]) -> np.ndarray:
    """Standard deviations of stiff coordinates, the others held, in the harmonic approximation at the reference.

    Second derivatives are differences of first ones: 2 evaluations for each stiff coordinate.
    """
    map_, kt = molecule.coordinates, thermal_energy(molecule.temperature)
    reference = map_.to_internal(torch.from_numpy(molecule.positions)[None]).coordinates
    steps = torch.tensor([1e-5 if map_.columns[i].kind is Kind.BOND else 1e-4 for i in stiff], dtype=torch.float64)
    shifts = torch.zeros(len(stiff), map_.dimension, dtype=torch.float64)
    shifts[range(len(stiff)), stiff] = steps
    points = torch.cat([reference + shifts, reference - shifts]).requires_grad_()
    with torch.enable_grad():
        (gradients,) = torch.autograd.grad(energy(map_.to_cartesian(points).positions).sum(), points)
    ahead, behind = gradients[:, stiff].chunk(2)
    hessian = ((ahead - behind) / (2 * steps[:, None]) / kt).numpy()
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    # A direction that is nearly free, or that curves down at the reference, is taken for one of little stiffness.
    values = np.maximum(values, 1e-3 * np.median(values))
    return np.asarray(np.sqrt((vectors**2 / values).sum(1)))
