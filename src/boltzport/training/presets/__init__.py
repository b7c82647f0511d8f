"""Presets: flow, layout and settings of the method for every system."""

from boltzport.training.presets.cmt import CMT_PRESETS
from boltzport.training.presets.fab import FAB_PRESETS
from boltzport.training.presets.forward_kl import FORWARD_KL_PRESETS
from boltzport.training.presets.kinds import MethodPresets, Preset
from boltzport.training.presets.recipe import METHOD_PRESETS, SMALL_FLOW, Recipe, flow_sizes, recipe
from boltzport.training.presets.retarget import from_trained
from boltzport.training.presets.reverse_kl import REVERSE_KL_PRESETS
from boltzport.training.presets.ta_bg import TA_BG_PRESETS

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
    "from_trained",
    "recipe",
]
