"""Energies by name, for the command line and for run directories."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from boltzport.core.errors import InputError
from boltzport.energies.extras import require_extra
from boltzport.energies.processes import ProcessEnergy
from boltzport.energies.xtb import METHODS, XTB


@dataclass(frozen=True, kw_only=True)
class NamedEnergy:
    """An energy that has a name.

    Attributes:
        library: Name of the library that computes it.
        extra: The extra of boltzport that has the library.
        build: Builds it from the atomic number of each atom and the total charge of the molecule.
    """

    library: str
    extra: str
    build: Callable[[Sequence[int], int], ProcessEnergy]


def _xtb(method: str) -> NamedEnergy:
    return NamedEnergy(
        library="tblite",
        extra="xtb",
        build=lambda elements, charge: XTB(elements, charge=charge, method=method),
    )


ENERGIES: dict[str, NamedEnergy] = {name: _xtb(name) for name in METHODS}
"""Energies by their name on the command line."""


def check_energy_name(name: str) -> str:
    """Return the name of an energy that can be used.

    Raises:
        InputError: There is no such energy, and the message names the nearest; or its library is not installed.

    Example:
        >>> check_energy_name("gfn2-xtb")
        'gfn2-xtb'
    """
    if name in ENERGIES:
        require_extra(name, (ENERGIES[name].library,), extra=ENERGIES[name].extra)
        return name
    near = difflib.get_close_matches(name.lower(), ENERGIES, n=1, cutoff=0.0)
    raise InputError(f"energy: unknown energy {name!r}; did you mean {near[0]}? Known are {', '.join(ENERGIES)}")


def named_energy(name: str, elements: Sequence[int], *, charge: int) -> ProcessEnergy:
    """Build an energy by its name.

    Args:
        name: Name of the energy.
        elements: Atomic number of each atom.
        charge: Total charge in elementary charges.

    Raises:
        InputError: There is no such energy, its library is not installed, or it does not fit the molecule.
    """
    return ENERGIES[check_energy_name(name)].build(elements, charge)


def describe_named(name: str, *, charge: int) -> str:
    """One line about an energy: its library, the charge and the surroundings."""
    library = ENERGIES[name].library
    return f"{name} by {library} {version(library)}, total charge {charge:+d}, in vacuum"
