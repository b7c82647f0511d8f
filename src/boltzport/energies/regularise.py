"""The regularised reduced energy: clashes have large but finite energies.

"Target densities" in the paper's appendix, after Midgley et al. (2022).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.units import thermal_energy

E_HIGH = 1e8
E_MAX = 1e20


def regularise(
    reduced_energy: Float[Tensor, "*shape"], *, high: float = E_HIGH, maximum: float = E_MAX
) -> Float[Tensor, "*shape"]:
    """Compress energies above ``high`` logarithmically and clip them at ``maximum``.

    Above ``high`` the result is ``log(min(E, maximum) - high + 1) + high``. Infinite energies are clipped like any
    other; NaN stays NaN, since it is a failed evaluation and not a high energy.

    Args:
        reduced_energy: energies in kT.
        high: energy in kT above which energies are compressed.
        maximum: energy in kT at which energies are clipped.

    Returns:
        Regularised energies in kT, with a finite gradient.

    Example:
        >>> energies = torch.tensor([-3.0, 1e30, float("inf")], dtype=torch.float64)
        >>> [round(value, 3) for value in regularise(energies).tolist()]
        [-3.0, 100000046.052, 100000046.052]
    """
    # The excess is zero below ``high``, so that the unused branch has a finite gradient too.
    excess = (reduced_energy.clamp(max=maximum) - high).clamp(min=0.0)
    return torch.where(reduced_energy > high, torch.log1p(excess) + high, reduced_energy)


class RegularisedEnergy:
    """Maps positions in nm to the regularised reduced energy in kT.

    Args:
        energy: maps positions (batch, atoms, 3) in nm to energies (batch,) in kJ/mol, such as ``ForceField``.
        temperature: temperature in K.
        high: energy in kT above which energies are compressed.
        maximum: energy in kT at which energies are clipped.
    """

    def __init__(
        self,
        energy: Callable[[Tensor], Tensor],
        *,
        temperature: float,
        high: float = E_HIGH,
        maximum: float = E_MAX,
    ) -> None:
        self._energy = energy
        self._thermal_energy = thermal_energy(temperature)
        self._high, self._maximum = high, maximum

    def __call__(self, positions: Float[Tensor, "batch atoms 3"]) -> Float[Tensor, " batch"]:
        """Regularised reduced energies of a batch in kT."""
        return regularise(self._energy(positions) / self._thermal_energy, high=self._high, maximum=self._maximum)
