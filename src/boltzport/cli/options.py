"""Options that several commands share."""

import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, Token
from rich.console import Console
from rich.markup import escape

from boltzport.core.errors import InputError
from boltzport.core.seeds import LARGEST, check_seed

if TYPE_CHECKING:
    from boltzport.experiments import MoleculeConfig
    from boltzport.molecules import Molecule

Force = Annotated[bool, Parameter(name="--force", negative="")]
Threads = Annotated[int | None, Parameter(name="--threads")]
Yes = Annotated[bool, Parameter(name="--yes", negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]


def _whole(_type: object, tokens: Sequence[Token]) -> int:
    """A seed; cyclopts alone would round 1.5."""
    text = tokens[0].value
    try:
        return check_seed(int(text))
    except ValueError:
        raise InputError(f"expected a whole number from 0 to {LARGEST}, got {text}") from None


Seed = Annotated[int, Parameter(name="--seed", converter=_whole)]
PH = 7.0
"""Default pH."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoleculeOptions:
    """How the molecule is built.

    Attributes:
        forcefield: Force field: an XML name that OpenMM ships, or an XML file; repeat it or use commas for several.
        constraints: Bonds of constant length.
        ph: pH that decides the protonation of a sequence, and of added hydrogens.
        keep: Chain of a PDB file to keep (A), without waters, ions, ligands and alternate locations; repeat it or use
            commas for several.
        add_hydrogens: Add missing hydrogens to a PDB file.
        temperature: Temperature in K.
        energy: Energy that replaces the force field: gfn2-xtb or gfn1-xtb.
        system_xml: Serialized OpenMM System; SYSTEM is then a PDB or PDBx/mmCIF file with its atoms and bonds.
    """

    forcefield: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    constraints: Literal["none", "hbonds"] | None = None
    ph: float = PH
    keep: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    add_hydrogens: Annotated[bool, Parameter(negative="")] = False
    temperature: float = 300.0
    energy: str | None = None
    system_xml: Path | None = None

    def load(self, system: str) -> "Molecule":
        """Build the molecule."""
        from boltzport.core.parallel import ranks
        from boltzport.experiments import check_name
        from boltzport.molecules import Molecule, read_system

        theirs = self.forcefield or self.constraints is not None or self.ph != PH or self.keep or self.add_hydrogens
        if self.system_xml is not None and theirs:
            raise InputError("--system-xml: a System has its forces, constraints and atoms; leave out their options")

        check_name(system)
        # This takes seconds for a peptide and tens of seconds for a protein, without any progress to show.
        with Console(stderr=True, quiet=not ranks().leads).status(f"building and minimising {escape(system)}"):
            if self.system_xml is not None:
                return read_system(self.system_xml, Path(system), temperature=self.temperature)
            return Molecule(
                system,
                forcefield=self.resolved().forcefield,
                constraints=self.constraints,
                ph=self.ph,
                keep=self.resolved().keep,
                add_hydrogens=self.add_hydrogens,
                temperature=self.temperature,
            )

    def config(self) -> "MoleculeConfig":
        """The options as a run directory records them."""
        from boltzport.experiments import MoleculeConfig

        if self.system_xml is not None:
            return MoleculeConfig(temperature=self.temperature, source="system", energy=self.energy)
        return MoleculeConfig(
            forcefield=self.resolved().forcefield,
            constraints=self.constraints,
            ph=self.ph,
            keep=self.resolved().keep,
            add_hydrogens=self.add_hydrogens,
            temperature=self.temperature,
            energy=self.energy,
        )

    def resolved(self) -> "MoleculeOptions":
        """The same options with one name in each entry of the force field, and of the chains."""
        return replace(self, forcefield=words(self.forcefield), keep=words(self.keep))


def words(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Names in the entries of an option, of which one may have several with commas between them.

    Example:
        >>> words(("amber14-all.xml,implicit/obc1.xml", "mine.xml"))
        ('amber14-all.xml', 'implicit/obc1.xml', 'mine.xml')
    """
    return tuple(word for entry in entries for word in entry.replace(",", " ").split())


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
