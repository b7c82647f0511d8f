"""Ensembles: samples of a flow as files that other programs read, weighted, resampled or refined."""

from boltzport.ensemble.frames import SUFFIXES
from boltzport.ensemble.refine import IndependenceMetropolis, Refine
from boltzport.ensemble.resample import systematic_counts
from boltzport.ensemble.write import Mode, WrittenEnsemble, write_ensemble

__all__ = [
    "SUFFIXES",
    "IndependenceMetropolis",
    "Mode",
    "Refine",
    "WrittenEnsemble",
    "systematic_counts",
    "write_ensemble",
]
