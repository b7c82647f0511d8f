"""Ensembles: samples of a flow as files that other programs read, weighted, resampled or refined."""

from boltzport.ensemble.frames import SUFFIXES
from boltzport.ensemble.refine import IndependenceMetropolis, Refine
from boltzport.ensemble.resample import Quality, quality, systematic_counts
from boltzport.ensemble.write import Mode, WrittenEnsemble, write_ensemble

__all__ = [
    "SUFFIXES",
    "IndependenceMetropolis",
    "Mode",
    "Quality",
    "Refine",
    "WrittenEnsemble",
    "quality",
    "systematic_counts",
    "write_ensemble",
]
