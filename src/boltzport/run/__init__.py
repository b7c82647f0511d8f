"""What the command line runs: inspections and, later, trainings."""

from boltzport.run.energies import Energy, open_energy
from boltzport.run.inspection import Group, Inspection, inspect_molecule
from boltzport.run.presets import Preset, build_flow

__all__ = ["Energy", "Group", "Inspection", "Preset", "build_flow", "inspect_molecule", "open_energy"]
