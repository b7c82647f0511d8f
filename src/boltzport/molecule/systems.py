"""The systems of the paper, by name."""

from dataclasses import dataclass

from boltzport.molecule.parametrise import Constraints


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
    # OBC1 is implicit/obc1.xml; amber96_obc.xml is OBC2 and lies 10 kJ/mol away.
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
"""Whose force field and constraints a sequence or a PDB file has unless told otherwise."""


def named_system(text: str) -> NamedSystem | None:
    """The system that a name, an alias or a sequence means; none where a sequence has another force field by default.

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
