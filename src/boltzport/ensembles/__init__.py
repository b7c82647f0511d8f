"""Ensembles: frames with weights in memory, and as files that other programs read."""

from boltzport.ensembles.anneal import Plan, annealed
from boltzport.ensembles.chain import ChainSummary, open_chains
from boltzport.ensembles.choose import annealed_source, choose
from boltzport.ensembles.ensemble import Ensemble, WeightsWarning
from boltzport.ensembles.frames import SUFFIXES, check_suffix
from boltzport.ensembles.refine import IndependenceMetropolis, Refine
from boltzport.ensembles.resample import systematic_counts
from boltzport.ensembles.shares import optimal_shares, with_optimal_shares
from boltzport.ensembles.stream import Mode, Stream, open_stream
from boltzport.ensembles.survey import Course, survey
from boltzport.ensembles.thermodynamics import thermodynamics
from boltzport.ensembles.write import WrittenEnsemble, check_file, write_frames

__all__ = [
    "SUFFIXES",
    "ChainSummary",
    "Course",
    "Ensemble",
    "IndependenceMetropolis",
    "Mode",
    "Plan",
    "Refine",
    "Stream",
    "WeightsWarning",
    "WrittenEnsemble",
    "annealed",
    "annealed_source",
    "check_file",
    "check_suffix",
    "choose",
    "open_chains",
    "open_stream",
    "optimal_shares",
    "survey",
    "systematic_counts",
    "thermodynamics",
    "with_optimal_shares",
    "write_frames",
]
