"""Options that several commands share."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, Token
from rich.console import Console
from rich.markup import escape

from boltzport.core.errors import InputError
from boltzport.core.seeds import LARGEST, check_seed

if TYPE_CHECKING:
    from boltzport.molecules import Molecule

Force = Annotated[bool, Parameter(name="--force", negative="")]
Yes = Annotated[bool, Parameter(name="--yes", negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


def _whole(_type: object, tokens: Sequence[Token]) -> int:
    """A seed; cyclopts alone would round 1.5."""
    text = tokens[0].value
    try:
        return check_seed(int(text))
    except ValueError:
        raise InputError(f"{tokens[0].keyword}: expected a whole number from 0 to {LARGEST}, got {text}") from None


Seed = Annotated[int, Parameter(name="--seed", converter=_whole)]


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
        from boltzport.experiments import check_name
        from boltzport.molecules import Molecule

        check_name(system)
        # This takes seconds for a peptide and tens of seconds for a protein, without any progress to show.
        with Console(stderr=True).status(f"building and minimising {escape(system)}"):
            return Molecule(
                system,
                forcefield=self.resolved().forcefield,
                constraints=self.constraints,
                ph=self.ph,
                temperature=self.temperature,
            )

    def resolved(self) -> "MoleculeOptions":
        """The same options with one name in each entry of the force field."""
        names = tuple(name for entry in self.forcefield for name in entry.replace(",", " ").split())
        return replace(self, forcefield=names)


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
