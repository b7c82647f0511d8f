"""What the command line runs: inspections, checks of the machine, trainings."""

from boltzport.run.doctor import Check, examine
from boltzport.run.inspection import Inspection, inspect_molecule

__all__ = ["Check", "Inspection", "examine", "inspect_molecule"]
