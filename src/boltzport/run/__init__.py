"""What the command line runs: inspections and, later, trainings."""

from boltzport.run.inspection import Group, Inspection, inspect_molecule
from boltzport.run.presets import Preset, build_flow, build_layout

__all__ = ["Group", "Inspection", "Preset", "build_flow", "build_layout", "inspect_molecule"]
