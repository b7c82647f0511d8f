"""Presets: flow, layout and settings of the method for every system."""

from boltzport.run.presets.cmt import CMT_PRESETS
from boltzport.run.presets.fab import FAB_PRESETS
from boltzport.run.presets.kinds import MethodPresets, Preset
from boltzport.run.presets.recipe import METHOD_PRESETS, SMALL_FLOW, LayoutKind, Recipe, recipe

__all__ = [
    "CMT_PRESETS",
    "FAB_PRESETS",
    "METHOD_PRESETS",
    "SMALL_FLOW",
    "LayoutKind",
    "MethodPresets",
    "Preset",
    "Recipe",
    "recipe",
]
