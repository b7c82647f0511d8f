"""Ensembles: frames with weights in memory, and as files that other programs read."""

from boltzport.ensembles.ensemble import Ensemble, WeightsWarning
from boltzport.ensembles.frames import SUFFIXES
from boltzport.ensembles.refine import IndependenceMetropolis, Refine
from boltzport.ensembles.resample import systematic_counts
from boltzport.ensembles.stream import Mode, Stream, open_stream
from boltzport.ensembles.thermodynamics import thermodynamics
from boltzport.ensembles.write import WrittenEnsemble, check_file, write_frames

__all__ = [
    "SUFFIXES",
    "Ensemble",
    "IndependenceMetropolis",
    "Mode",
    "Refine",
    "Stream",
    "WeightsWarning",
    "WrittenEnsemble",
    "check_file",
    "open_stream",
    "systematic_counts",
    "thermodynamics",
    "write_frames",
]
