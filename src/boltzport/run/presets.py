"""Presets: flow, layout and settings of the method for every system."""

from dataclasses import dataclass, replace
from enum import StrEnum

from boltzport.errors import InputError
from boltzport.flow import LAPTOP, PAPER, FlowConfig
from boltzport.methods import CMTConfig
from boltzport.targets import TOYS


class Preset(StrEnum):
    """How much work a training may be."""

    QUICK = "quick"
    LAPTOP = "laptop"
    PAPER = "paper"


class LayoutKind(StrEnum):
    """Coordinates and base density of a molecule: independent stiff motions, separate ones, or the paper's."""

    HARMONIC = "harmonic"
    INFORMED = "informed"
    PAPER = "paper"
    OWN = "own"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a preset makes of a system.

    Attributes:
        layout: Base density; a toy has its own.
        flow: Size of the flow.
        method: Settings of the method.
    """

    layout: LayoutKind
    flow: FlowConfig
    method: CMTConfig


_PAPER_METHOD = CMTConfig(
    trust_region=0.3,
    entropy=0.8,
    steps=200,
    gradient_steps=2000,
    buffer_size=500_000,
    batch_size=1000,
    learning_rate=4e-5,
    warmup=1000,
    weight_decay=1e-5,
    max_gradient_norm=100.0,
    # What the paper does not have is switched off.
    hold_out=0.0,
)

PAPER_METHODS: dict[str, CMTConfig] = {
    "alanine-dipeptide": _PAPER_METHOD,
    "alanine-tetrapeptide": replace(_PAPER_METHOD, entropy=1.8, learning_rate=5e-5),
    "alanine-hexapeptide": replace(
        _PAPER_METHOD, entropy=1.4, learning_rate=5e-5, batch_size=2000, buffer_size=1_000_000, steps=400
    ),
    "elil-tetrapeptide": replace(
        _PAPER_METHOD, entropy=0.7, learning_rate=5e-5, batch_size=2000, buffer_size=1_000_000, steps=800
    ),
}
"""The paper's tables of hyper-parameters and of annealing steps."""

_MOLECULES = {
    Preset.QUICK: CMTConfig(steps=10, gradient_steps=100, buffer_size=50_000, refine=8, refine_rate=3e-4),
    Preset.LAPTOP: CMTConfig(
        steps=12, gradient_steps=150, buffer_size=100_000, refine=50, refine_rate=2e-4, average=0.999
    ),
}
SMALL_FLOW = FlowConfig(pairs=4, hidden=(64, 64))
"""For a few dimensions."""
SMALL_METHOD = CMTConfig(steps=16, gradient_steps=80, buffer_size=20_000, batch_size=500, learning_rate=3e-3)
"""For a few dimensions."""
_TOYS: dict[str, Recipe] = {
    "gmm-40": Recipe(
        layout=LayoutKind.OWN,
        flow=FlowConfig(pairs=6, bins=16, hidden=(96, 96)),
        method=CMTConfig(steps=25, gradient_steps=200, buffer_size=50_000, learning_rate=2e-3, average=0.99),
    ),
    "many-well-32": Recipe(
        layout=LayoutKind.OWN,
        flow=FlowConfig(pairs=4, hidden=(64, 64)),
        method=CMTConfig(steps=40, gradient_steps=100, buffer_size=50_000, learning_rate=2e-3),
    ),
}


def recipe(system: str, preset: Preset) -> Recipe:
    """What a preset makes of a system.

    Args:
        system: Name of a toy, of a molecule of the paper, or of any other molecule.
        preset: How much work.

    Raises:
        InputError: The paper has no such system.
    """
    if system in TOYS:
        if preset is Preset.PAPER:
            raise InputError(f"the paper has no {system}; expected the preset quick or laptop")
        return _TOYS.get(system, Recipe(layout=LayoutKind.OWN, flow=SMALL_FLOW, method=SMALL_METHOD))
    if preset is not Preset.PAPER:
        return Recipe(layout=LayoutKind.HARMONIC, flow=LAPTOP, method=_MOLECULES[preset])
    # A molecule that the paper does not have takes the settings of its hexapeptide.
    method = PAPER_METHODS.get(system, PAPER_METHODS["alanine-hexapeptide"])
    return Recipe(layout=LayoutKind.PAPER, flow=PAPER, method=method)
