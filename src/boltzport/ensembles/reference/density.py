"""The Boltzmann density of a molecule for the kernels of `mcmc`: in two parts, with a support."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.mcmc import Density, Logs, Parts, differentiate
from boltzport.molecules import Kind, Molecule
from boltzport.targets import CountedTarget, Ledger, Purpose
from boltzport.targets.boltzmann import BoltzmannTarget

EDGE = 1e-6
"""Smallest distance from the end of a coordinate's range, in nm or radian; closer points are outside."""
SHORTEST_BOND, LONGEST_BOND = 0.03, 1.0
"""Range of a bond in nm; no bond leaves it in any force field at temperatures of interest."""


class Support(NamedTuple):
    """Allowed coordinates of a molecule: angles inside (0, pi), halved torsions inside their half.

    Attributes:
        lower: Smallest value of each coordinate; minus infinity for a full-circle torsion.
        upper: Largest value.
        circular: Whether each coordinate is a full-circle torsion.
    """

    lower: Float[Tensor, " dimensions"]
    upper: Float[Tensor, " dimensions"]
    circular: Bool[Tensor, " dimensions"]

    def to(self, device: torch.device) -> "Support":
        """The support on a device."""
        return Support(*(part.to(device) for part in self))

    def contains(self, coordinates: Float[Tensor, "batch dimensions"]) -> Bool[Tensor, " batch"]:
        """Whether each point is inside; NaN is not."""
        return ((coordinates > self.lower) & (coordinates < self.upper)).all(1)

    def nearest(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Nearest points inside the support, where the density can be evaluated."""
        finite = torch.nan_to_num(coordinates, nan=1.0, posinf=1.0, neginf=1.0)
        return torch.minimum(torch.maximum(finite, self.lower + EDGE), self.upper - EDGE)

    def wrap(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """Wrap every full-circle torsion to [-pi, pi)."""
        wrapped = torch.remainder(coordinates + math.pi, 2 * math.pi) - math.pi
        return torch.where(self.circular, wrapped, coordinates)


def support_of(molecule: Molecule) -> Support:
    """Support of a molecule's internal coordinates."""
    columns = molecule.coordinates.columns
    bounds = [
        (SHORTEST_BOND, LONGEST_BOND)
        if column.kind is Kind.BOND
        else (-math.inf, math.inf)
        if column.circular
        else (column.lower, column.upper)
        for column in columns
    ]
    lower, upper = torch.tensor(bounds, dtype=torch.float64).T
    return Support(lower, upper, torch.tensor([column.circular for column in columns]))


def boltzmann_density(target: BoltzmannTarget, support: Support, *, ledger: Ledger | None = None) -> Density:
    """Density of a molecule: `log_p` is minus the reduced energy, the base is the volume of the coordinates.

    Trajectories use forces in single precision, at half the cost; the acceptance uses energies in double precision, so
    that it is exact.

    Args:
        target: The molecule with its energy.
        support: Support of its coordinates.
        ledger: Ledger that counts the evaluations.
    """
    counted = CountedTarget(target, ledger)

    def rounded(coordinates: Tensor) -> Logs:
        found = counted.evaluate(coordinates.float(), Purpose.EVALUATION)
        return Logs(found.log_volume, found.log_p)

    differentiated = differentiate(rounded)

    def parts(coordinates: Float[Tensor, "batch dimensions"]) -> Parts:
        return differentiated(support.nearest(coordinates))

    def logs(coordinates: Float[Tensor, "batch dimensions"]) -> Logs:
        with torch.no_grad():
            found = counted.evaluate(support.nearest(coordinates), Purpose.EVALUATION)
        return Logs(found.log_volume, torch.where(support.contains(coordinates), found.log_p, -torch.inf))

    return Density(parts=parts, logs=logs)
