"""The reference structure of a molecule under another energy than its force field."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from boltzport.core.units import thermal_energy
from boltzport.molecules import Molecule
from boltzport.targets.boltzmann.stiffness import stiffness

ITERATIONS = 20
"""Largest number of steps."""
ENOUGH = 0.01
"""Expected gain of a step, in kT, below which the structure is relaxed."""
LONGEST = 3.0
"""Length in standard deviations above which a component of a step is cut."""


def relaxed(molecule: Molecule, energy: Callable[[Tensor], Tensor]) -> Molecule:
    """The molecule with its stiff coordinates at the minimum of an energy, the free torsions unchanged.

    Newton steps with the second derivatives at the start. The molecule is returned unchanged if its structure is
    relaxed already, or if no step lowers the energy.

    Args:
        molecule: Molecule whose reference structure is a minimum of its force field.
        energy: Energy in kJ/mol of positions in nm, differentiable.
    """
    map_, kt = molecule.coordinates, thermal_energy(molecule.temperature)

    def slope(point: Tensor) -> tuple[float, np.ndarray]:
        there = point.clone().requires_grad_()
        with torch.enable_grad():
            found = energy(map_.to_cartesian(there).positions) / kt
            (gradient,) = torch.autograd.grad(found.sum(), there)
        return float(found.detach()), gradient[0].numpy()

    start = map_.to_internal(torch.from_numpy(molecule.positions)[None]).coordinates
    indices, covariance = stiffness(molecule, energy)
    widths = np.sqrt(np.diagonal(covariance))
    best, point = start, start
    lowest, gradient = slope(start)
    for _ in range(ITERATIONS):
        step = -covariance @ gradient[indices]
        if not -0.5 * float(gradient[indices] @ step) > ENOUGH:
            break
        step = LONGEST * widths * np.tanh(step / (LONGEST * widths))
        point = best.clone()
        point[0, indices] += torch.from_numpy(step)
        value, next_gradient = slope(point)
        if not value < lowest:
            break
        best, lowest, gradient = point, value, next_gradient
    if best is start:
        return molecule
    return molecule.with_structure(map_.to_cartesian(best).positions[0].numpy())
