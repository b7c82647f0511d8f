"""Presets: flow, layout and settings of the method for every system."""

from boltzport.run.presets.cmt import CMT_PRESETS
from boltzport.run.presets.fab import FAB_PRESETS
from boltzport.run.presets.forward_kl import FORWARD_KL_PRESETS
from boltzport.run.presets.kinds import MethodPresets, Preset
from boltzport.run.presets.recipe import METHOD_PRESETS, SMALL_FLOW, Recipe, flow_sizes, recipe
from boltzport.run.presets.reverse_kl import REVERSE_KL_PRESETS
from boltzport.run.presets.ta_bg import TA_BG_PRESETS

__all__ = [
    "CMT_PRESETS",
    "FAB_PRESETS",
    "FORWARD_KL_PRESETS",
    "METHOD_PRESETS",
    "REVERSE_KL_PRESETS",
    "SMALL_FLOW",
    "TA_BG_PRESETS",
    "MethodPresets",
    "Preset",
    "Recipe",
    "flow_sizes",
    "recipe",
]
