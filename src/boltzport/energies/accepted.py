"""What `energy=` takes."""

from collections.abc import Callable

from torch import Tensor

from boltzport.energies.ase import ASE
from boltzport.energies.protocol import Energy

EnergyLike = Energy | Callable[[Tensor], Tensor] | ASE | str
"""An energy, a function of positions (batch, atoms, 3) in nm that returns energies in kJ/mol, an ASE calculator, or the
name of an energy such as `gfn2-xtb`."""


def name_of(energy: EnergyLike | None) -> str | None:
    """Name and settings of an energy as far as they are known, for run directories.

    Example:
        >>> name_of("gfn2-xtb"), name_of(lambda x: x.sum((1, 2)))
        ('gfn2-xtb', None)
    """
    if energy is None or isinstance(energy, str):
        return energy
    found = getattr(energy, "name", None)
    return found if isinstance(found, str) else None
