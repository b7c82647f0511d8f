"""Training, in memory or in run directories, and trained models. Molecules are imported only when one is used."""

from boltzport.layout import LayoutKind
from boltzport.preset import Preset
from boltzport.run.build import Given, OpenTarget, open_target
from boltzport.run.campaign import EvaluationEffort, RunResult, run_campaign
from boltzport.run.config import MoleculeConfig, RunConfig
from boltzport.run.launch import run_training, train
from boltzport.run.model import Model
from boltzport.run.opening import is_shipped, load, log_z_of, run_path, shipped_quality, shipped_systems
from boltzport.run.plan import Plan, Planned, every_method, make_plan
from boltzport.run.presets import Recipe, recipe
from boltzport.run.proposal import flow_proposal
from boltzport.run.request import default_directory, request
from boltzport.run.training import Status
from boltzport.run.variants import VARIANTS, Variant, variants_named

__all__ = [
    "VARIANTS",
    "EvaluationEffort",
    "Given",
    "LayoutKind",
    "Model",
    "MoleculeConfig",
    "OpenTarget",
    "Plan",
    "Planned",
    "Preset",
    "Recipe",
    "RunConfig",
    "RunResult",
    "Status",
    "Variant",
    "default_directory",
    "every_method",
    "flow_proposal",
    "is_shipped",
    "load",
    "log_z_of",
    "make_plan",
    "open_target",
    "recipe",
    "request",
    "run_campaign",
    "run_path",
    "run_training",
    "shipped_quality",
    "shipped_systems",
    "train",
    "variants_named",
]
