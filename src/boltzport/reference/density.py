"""The Boltzmann density of a molecule as the kernels of `mcmc` want it: in two parts, with a support."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from boltzport.boltzmann import BoltzmannTarget
from boltzport.mcmc import Density, Logs, Parts, differentiate
from boltzport.molecule import Kind, Molecule
from boltzport.targets import CountedTarget, Ledger, Purpose

EDGE = 1e-6
"""How near to the end of its range a coordinate is evaluated, in nm or radian; beyond that it is outside."""
SHORTEST_BOND, LONGEST_BOND = 0.03, 1.0
"""Range in nm of a bond; no force field has one outside of it at any temperature of interest."""


class Support(NamedTuple):
    """Which coordinates a molecule may have: angles inside (0, pi), halved torsions inside their half.

    Attributes:
        lower: Least value of each coordinate; minus infinity for a torsion that goes all the way round.
        upper: Largest value.
        circular: Which coordinates are torsions that go all the way round.
    """

    lower: Float[Tensor, " dimensions"]
    upper: Float[Tensor, " dimensions"]
    circular: Bool[Tensor, " dimensions"]

    def contains(self, coordinates: Float[Tensor, "batch dimensions"]) -> Bool[Tensor, " batch"]:
        """Whether each point lies inside; NaN does not."""
        return ((coordinates > self.lower) & (coordinates < self.upper)).all(1)

    def nearest(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """The nearest points inside, where a density can be evaluated."""
        finite = torch.nan_to_num(coordinates, nan=1.0, posinf=1.0, neginf=1.0)
        return torch.minimum(torch.maximum(finite, self.lower + EDGE), self.upper - EDGE)

    def wrap(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, "batch dimensions"]:
        """The same points with every full torsion in [-pi, pi)."""
        wrapped = torch.remainder(coordinates + math.pi, 2 * math.pi) - math.pi
        return torch.where(self.circular, wrapped, coordinates)


def support_of(molecule: Molecule) -> Support:
    """The support of a molecule's internal coordinates."""
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
    """A molecule's density: `log_p` is minus the reduced energy, the base is the volume of the coordinates.

    Trajectories are driven by forces in single precision, at half of the cost; the acceptance takes energies in
    double precision, so that it is exact.

    Args:
        target: The molecule with its energy.
        support: Where it is allowed to be.
        ledger: Where evaluations are counted.
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
