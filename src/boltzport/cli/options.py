"""Options that several commands share."""

import math
import shlex
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    from boltzport.molecules import Molecule

Json = Annotated[bool, Parameter(name="--json", negative="")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoleculeOptions:
    """How the molecule is built.

    Attributes:
        forcefield: Force field: an XML name that OpenMM ships, or an XML file; repeat it or use commas for several.
        constraints: Bonds of constant length.
        ph: pH that decides the protonation of a sequence.
        temperature: Temperature in K.
    """

    forcefield: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    constraints: Literal["none", "hbonds"] | None = None
    ph: float = 7.0
    temperature: float = 300.0

    def load(self, system: str) -> "Molecule":
        """Build the molecule."""
        from boltzport.molecules import Molecule

        # This takes seconds for a peptide and tens of seconds for a protein, without any progress to show.
        with Console(stderr=True).status(f"building and minimising {system}"):
            return Molecule(
                system,
                forcefield=self.resolved().forcefield,
                constraints=self.constraints,
                ph=self.ph,
                temperature=self.temperature,
            )

    def resolved(self) -> "MoleculeOptions":
        """The same options with one name in each entry of the force field."""
        return replace(self, forcefield=forcefield_names(self.forcefield))


def forcefield_names(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a force field, of which an entry may have several with commas between them.

    Example:
        >>> forcefield_names(("amber14-all.xml,implicit/obc1.xml", "mine.xml"))
        ('amber14-all.xml', 'implicit/obc1.xml', 'mine.xml')
    """
    return tuple(name for entry in entries for name in entry.replace(",", " ").split())


def command_line() -> str:
    """The command line that the user typed."""
    return shlex.join(["boltzport", *sys.argv[1:]])


def count(number: float) -> int:
    """Convert a whole number that may be written as 1e5.

    Raises:
        InputError: It is not a whole number of at least 1.
    """
    if not (1 <= number < math.inf and number == int(number)):
        raise InputError(f"-n: expected a whole number of at least 1, got {number:g}")
    return int(number)
