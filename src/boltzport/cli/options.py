"""Options that several commands share."""

import math
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from boltzport.core.errors import InputError

if TYPE_CHECKING:
    from boltzport.experiments import MoleculeConfig
    from boltzport.molecules import Molecule

Json = Annotated[bool, Parameter(name="--json", negative="")]


PH = 7.0
"""Default pH."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class MoleculeOptions:
    """How the molecule is built.

    Attributes:
        forcefield: Force field: an XML name that OpenMM ships, or an XML file; repeat it or use commas for several.
        constraints: Bonds of constant length.
        ph: pH that decides the protonation of a sequence.
        temperature: Temperature in K.
        energy: Energy that replaces the force field: gfn2-xtb or gfn1-xtb.
        system_xml: Serialized OpenMM System; SYSTEM is then a PDB or PDBx/mmCIF file with its atoms and bonds.
    """

    forcefield: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    constraints: Literal["none", "hbonds"] | None = None
    ph: float = PH
    temperature: float = 300.0
    energy: str | None = None
    system_xml: Path | None = None

    def load(self, system: str) -> "Molecule":
        """Build the molecule."""
        from boltzport.molecules import Molecule, read_system

        if self.system_xml is not None and (self.forcefield or self.constraints is not None or self.ph != PH):
            raise InputError("--system-xml: a System has its forces, constraints and protons; leave out their options")

        # This takes seconds for a peptide and tens of seconds for a protein, without any progress to show.
        with Console(stderr=True).status(f"building and minimising {system}"):
            if self.system_xml is not None:
                return read_system(self.system_xml, Path(system), temperature=self.temperature)
            return Molecule(
                system,
                forcefield=self.resolved().forcefield,
                constraints=self.constraints,
                ph=self.ph,
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
            temperature=self.temperature,
            energy=self.energy,
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
