"""The systems of the paper, by name."""

from dataclasses import dataclass

from boltzport.molecules.parametrise import Constraints


@dataclass(frozen=True, kw_only=True)
class NamedSystem:
    """A system of the paper (its table of molecular systems)."""

    name: str
    alias: str
    sequence: str
    forcefield: tuple[str, ...]
    constraints: Constraints


_AMBER99 = ("amber99sbildn.xml", "amber99_obc.xml")

SYSTEMS = (
    # OBC1 is implicit/obc1.xml; amber96_obc.xml is OBC2, which differs by 10 kJ/mol.
    NamedSystem(
        name="alanine-dipeptide",
        alias="aldp",
        sequence="ACE-ALA-NME",
        forcefield=("amber96.xml", "implicit/obc1.xml"),
        constraints=Constraints.NONE,
    ),
    NamedSystem(
        name="alanine-tetrapeptide",
        alias="tetra",
        sequence="ACE-ALA-ALA-ALA-NME",
        forcefield=_AMBER99,
        constraints=Constraints.HBONDS,
    ),
    NamedSystem(
        name="alanine-hexapeptide",
        alias="hexa",
        sequence="ACE-ALA-ALA-ALA-ALA-ALA-NME",
        forcefield=_AMBER99,
        constraints=Constraints.HBONDS,
    ),
    NamedSystem(
        name="elil-tetrapeptide", alias="elil", sequence="ELIL", forcefield=_AMBER99, constraints=Constraints.HBONDS
    ),
)
"""The four systems of the paper."""

DEFAULT = SYSTEMS[1]
"""System whose force field and constraints are the default for sequences and PDB files."""


def named_system(text: str) -> NamedSystem | None:
    """Find the system of a name, alias or sequence; None if a sequence has another default force field.

    Example:
        >>> [found and found.name for found in map(named_system, ["hexa", "ELIL", "ACE-ALA-NME"])]
        ['alanine-hexapeptide', 'elil-tetrapeptide', None]
    """
    by_default = (DEFAULT.forcefield, DEFAULT.constraints)
    for entry in SYSTEMS:
        alike = text == entry.sequence and (entry.forcefield, entry.constraints) == by_default
        if alike or text in (entry.name, entry.alias):
            return entry
    return None
