"""Make an energy that is computed together with its forces differentiable by autograd."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

BatchOfPositions = Float[Tensor, "batch atoms 3"]
BatchOfEnergies = Float[Tensor, " batch"]


class EnergyAndForces(NamedTuple):
    """Energies in kJ/mol and forces in kJ/mol/nm."""

    energies: BatchOfEnergies
    forces: BatchOfPositions


class _WithForces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, positions: Tensor, evaluate: Callable[[Tensor], EnergyAndForces]) -> Tensor:
        energies, forces = evaluate(positions)
        ctx.save_for_backward(forces)
        return energies

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (forces,) = ctx.saved_tensors
        return -gradient[:, None, None] * forces, None


def differentiable_energy(
    positions: BatchOfPositions, evaluate: Callable[[Tensor], EnergyAndForces]
) -> BatchOfEnergies:
    """Energies that can be differentiated once with respect to the positions."""
    energies: Tensor = _WithForces.apply(positions, evaluate)  # type: ignore[no-untyped-call]
    return energies
