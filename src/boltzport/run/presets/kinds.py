"""What presets are made of."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from boltzport.preset import Preset as Preset

C = TypeVar("C")

LARGE = 50
"""Atoms above which a molecule is a large one: the paper's tetrapeptide has 42, its hexapeptide 62."""


@dataclass(frozen=True, kw_only=True)
class MethodPresets(Generic[C]):
    """The settings of a method for every system.

    Attributes:
        paper: By molecule, the paper's tables.
        molecules: By preset, for any molecule.
        toys: By toy, where it has its own.
        small: For a few dimensions: every other toy.
        by_flow: By kind of flow and preset, where a kind of flow is trained in another way.
        large: The same for molecules of more than `LARGE` atoms, where these are trained in yet another way.
    """

    paper: dict[str, C]
    molecules: dict[Preset, C]
    toys: dict[str, C]
    small: C
    by_flow: dict[str, dict[Preset, C]] = field(default_factory=dict)
    large: dict[str, dict[Preset, C]] = field(default_factory=dict)
