"""Cheap checks of positions before they reach a kernel, with helpful messages."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.errors import InputError

# Bonds are measured on the first few configurations only.
_SAMPLE = 4
# Nm and angstrom differ by a factor of ten. The middle half of the bonds must show it: a molecule that is torn
# apart has bonds of all lengths.
_SHORTEST, _LONGEST = 8.0, 12.5


def check_shape(positions: Tensor, *, atoms: int) -> None:
    """Reject positions of another shape.

    Args:
        positions: positions, which should be (batch, atoms, 3) in nm.
        atoms: number of atoms of the molecule.

    Raises:
        InputError: wrong shape, wrong number of atoms, or not real numbers.
    """
    if positions.ndim != 3 or positions.shape[-1] != 3:
        hint = "add an axis with positions[None]" if tuple(positions.shape) == (atoms, 3) else "reshape them"
        raise InputError(
            f"positions must have the shape (batch, {atoms}, 3) in nm, got {tuple(positions.shape)}; {hint}"
        )
    if positions.shape[1] != atoms:
        raise InputError(
            f"this force field is for {atoms} atoms, got positions of {positions.shape[1]}; "
            "use the force field of the same molecule, hydrogens included"
        )
    if positions.dtype not in (torch.float32, torch.float64):
        raise InputError(f"positions must be float32 or float64, got {positions.dtype}; convert them first")


def check_positions(
    positions: Tensor,
    *,
    atoms: int,
    bonds: Int[Tensor, "bonds 2"],
    lengths: Float[Tensor, " bonds"],
) -> None:
    """Reject positions that are clearly wrong.

    Args:
        positions: positions, which should be (batch, atoms, 3) in nm.
        atoms: number of atoms of the molecule.
        bonds: pairs of bonded atoms.
        lengths: their equilibrium lengths in nm.

    Raises:
        InputError: wrong shape, wrong number of atoms, not real numbers, or bonds ten times too long.
    """
    check_shape(positions, atoms=atoms)
    if len(positions) == 0 or len(bonds) == 0:
        return
    sample = positions.detach()[:_SAMPLE].to("cpu", torch.float64)
    ratio = (sample[:, bonds[:, 0]] - sample[:, bonds[:, 1]]).norm(dim=-1) / lengths
    at = torch.tensor([0.25, 0.5, 0.75], dtype=ratio.dtype)
    quartiles = torch.quantile(ratio, at, dim=1)
    if bool(((quartiles > _SHORTEST) & (quartiles < _LONGEST)).all()):
        raise InputError(
            f"positions must be in nm, but bonds are {float(quartiles[1, 0]):.1f} times longer than the "
            "force field's; are they in angstrom? Divide them by 10"
        )
