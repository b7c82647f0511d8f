"""The command line: reads arguments, calls the library, prints.

Heavy imports stay inside the commands, so that help and completion respond at once. A command registers itself with the
application when its file is imported, which happens here.
"""

from boltzport.cli import bench, doctor, reference, results, retarget, settings, systems, train
from boltzport.cli.app import app, main

__all__ = ["app", "bench", "doctor", "main", "reference", "results", "retarget", "settings", "systems", "train"]
