"""Ensembles: frames with weights in memory, and as files that other programs read."""

from boltzport.ensemble.ensemble import Ensemble, WeightsWarning
from boltzport.ensemble.frames import SUFFIXES
from boltzport.ensemble.refine import IndependenceMetropolis, Refine
from boltzport.ensemble.resample import systematic_counts
from boltzport.ensemble.stream import Mode, Stream, open_stream
from boltzport.ensemble.write import WrittenEnsemble, check_file, write_frames

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
    "write_frames",
]
