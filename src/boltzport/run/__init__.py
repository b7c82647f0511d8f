"""What the command line runs: inspections and, later, trainings."""

from boltzport.run.inspection import Group, Inspection, inspect_molecule

__all__ = ["Group", "Inspection", "inspect_molecule"]
