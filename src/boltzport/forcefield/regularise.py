"""The regularised reduced energy: clashes are large numbers, never infinite ones.

"Target densities" in the paper's appendix, after Midgley et al. (2022).
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.units import thermal_energy

E_HIGH = 1e8
E_MAX = 1e20


def regularise(
    reduced_energy: Float[Tensor, "*shape"], *, high: float = E_HIGH, maximum: float = E_MAX
) -> Float[Tensor, "*shape"]:
    """Compress energies above ``high`` logarithmically and cut them at ``maximum``.

    ``log(min(E, maximum) - high + 1) + high`` above ``high``. An infinite energy is cut like any other; NaN
    stays NaN, for it is a failed evaluation and not a high energy.

    Args:
        reduced_energy: energies in kT.
        high: where compression starts, kT.
        maximum: above which all energies are alike, kT.

    Returns:
        Regularised energies in kT, with a finite gradient.

    Example:
        >>> energies = torch.tensor([-3.0, 1e30, float("inf")], dtype=torch.float64)
        >>> [round(value, 3) for value in regularise(energies).tolist()]
        [-3.0, 100000046.052, 100000046.052]
    """
    # The excess is kept at zero below ``high``, so that the branch not taken has a finite gradient as well.
    excess = (reduced_energy.clamp(max=maximum) - high).clamp(min=0.0)
    return torch.where(reduced_energy > high, torch.log1p(excess) + high, reduced_energy)


class RegularisedEnergy:
    """Positions in nm to the regularised reduced energy in kT.

    Args:
        energy: positions (batch, atoms, 3) in nm to energies (batch,) in kJ/mol, such as ``ForceField``.
        temperature: in K.
        high: where compression starts, kT.
        maximum: above which all energies are alike, kT.
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
