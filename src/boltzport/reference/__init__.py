"""Reference ensembles: ground truth by sampling or from a trajectory, with convergence diagnostics."""

from boltzport.reference.dataset import Reference, read_provenance
from boltzport.reference.diagnostics import Diagnostics, diagnose
from boltzport.reference.hmc import HmcSettings, sample_hmc
from boltzport.reference.make import NamedProposal, Sampler, make_reference, reference_from_trajectory
from boltzport.reference.presets import settings_for
from boltzport.reference.progress import StopRequest, show_progress, stop_on_interrupt
from boltzport.reference.remd import RemdSettings, sample_remd
from boltzport.reference.sampled import Sampled
from boltzport.reference.trajectory import import_trajectory

__all__ = [
    "Diagnostics",
    "HmcSettings",
    "NamedProposal",
    "Reference",
    "RemdSettings",
    "Sampled",
    "Sampler",
    "StopRequest",
    "diagnose",
    "import_trajectory",
    "make_reference",
    "read_provenance",
    "reference_from_trajectory",
    "sample_hmc",
    "sample_remd",
    "settings_for",
    "show_progress",
    "stop_on_interrupt",
]
