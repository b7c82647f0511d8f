"""Types of the presets."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from boltzport.core.preset import Preset as Preset

C = TypeVar("C")

LARGE = 50
"""A molecule with more atoms than this is large: the paper's tetrapeptide has 42, its hexapeptide 62."""


@dataclass(frozen=True, kw_only=True)
class MethodPresets(Generic[C]):
    """The settings of a method for every system.

    Attributes:
        paper: The paper's settings, by molecule.
        molecules: Settings for any molecule, by preset.
        toys: Settings of toys that have their own, by toy.
        small: Settings of all other toys, for a few dimensions.
        by_flow: Settings by kind of flow and preset, for kinds of flow that are trained differently.
        large: The same for molecules of more than `LARGE` atoms, if they are trained differently.
    """

    paper: dict[str, C]
    molecules: dict[Preset, C]
    toys: dict[str, C]
    small: C
    by_flow: dict[str, dict[Preset, C]] = field(default_factory=dict)
    large: dict[str, dict[Preset, C]] = field(default_factory=dict)
