"""Training, in memory or in run directories, and trained models. Molecules are imported only when one is used."""

from boltzport.experiments.build import Given, OpenTarget, check_name, open_target
from boltzport.experiments.campaign import EvaluationEffort, RunResult, run_campaign
from boltzport.experiments.config import MoleculeConfig, RunConfig
from boltzport.experiments.drawing import assist
from boltzport.experiments.inspection import Inspection, SystemSummary, inspect_molecule, named_systems
from boltzport.experiments.launch import join_training, run_training, train
from boltzport.experiments.mixing import load_mixture, mix
from boltzport.experiments.model import Model
from boltzport.experiments.opening import is_shipped, load, log_z_of, run_path, shipped_quality, shipped_systems
from boltzport.experiments.plan import Plan, Planned, every_method, make_plan
from boltzport.experiments.proposal import flow_proposal
from boltzport.experiments.redescribe import Changes
from boltzport.experiments.request import default_directory, request
from boltzport.experiments.resuming import check_same
from boltzport.experiments.retarget import retarget
from boltzport.experiments.settings_table import Setting, settings_of
from boltzport.experiments.size import check_size
from boltzport.experiments.variants import VARIANTS, Variant, variants_named

__all__ = [
    "VARIANTS",
    "Changes",
    "EvaluationEffort",
    "Given",
    "Inspection",
    "Model",
    "MoleculeConfig",
    "OpenTarget",
    "Plan",
    "Planned",
    "RunConfig",
    "RunResult",
    "Setting",
    "SystemSummary",
    "Variant",
    "assist",
    "check_name",
    "check_same",
    "check_size",
    "default_directory",
    "every_method",
    "flow_proposal",
    "inspect_molecule",
    "is_shipped",
    "join_training",
    "load",
    "load_mixture",
    "log_z_of",
    "make_plan",
    "mix",
    "named_systems",
    "open_target",
    "request",
    "retarget",
    "run_campaign",
    "run_path",
    "run_training",
    "settings_of",
    "shipped_quality",
    "shipped_systems",
    "train",
    "variants_named",
]
