"""Ensembles: frames with weights in memory, and as files that other programs read."""

from boltzport.ensembles.ensemble import Ensemble, WeightsWarning
from boltzport.ensembles.frames import SUFFIXES, check_suffix
from boltzport.ensembles.refine import IndependenceMetropolis, Refine
from boltzport.ensembles.resample import systematic_counts
from boltzport.ensembles.stream import Mode, Stream, open_stream
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
    "check_suffix",
    "open_stream",
    "systematic_counts",
    "write_frames",
]
