"""Reference ensembles: ground truth by sampling or from a trajectory, with convergence diagnostics."""

from boltzport.ensembles.reference.dataset import Reference, check_output, read_provenance
from boltzport.ensembles.reference.diagnostics import Diagnostics, diagnose
from boltzport.ensembles.reference.hmc import HmcSettings, sample_hmc
from boltzport.ensembles.reference.make import NamedProposal, Sampler, make_reference, reference_from_trajectory
from boltzport.ensembles.reference.presets import settings_for
from boltzport.ensembles.reference.progress import show_progress
from boltzport.ensembles.reference.remd import RemdSettings, sample_remd
from boltzport.ensembles.reference.sampled import Sampled
from boltzport.ensembles.reference.trajectory import import_trajectory

__all__ = [
    "Diagnostics",
    "HmcSettings",
    "NamedProposal",
    "Reference",
    "RemdSettings",
    "Sampled",
    "Sampler",
    "check_output",
    "diagnose",
    "import_trajectory",
    "make_reference",
    "read_provenance",
    "reference_from_trajectory",
    "sample_hmc",
    "sample_remd",
    "settings_for",
    "show_progress",
]
