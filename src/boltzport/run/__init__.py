"""Runs: from what a user asks for to a directory with a trained flow. Molecules are imported only when asked for."""

from boltzport.run.build import OpenTarget, open_target
from boltzport.run.campaign import EvaluationEffort, RunResult, run_campaign
from boltzport.run.config import MoleculeConfig, RunConfig
from boltzport.run.density import FittedDensity, WeightedSamples, fit_density
from boltzport.run.evaluation import evaluate_run
from boltzport.run.loop import Outcome, train
from boltzport.run.opening import OpenRun, open_run, run_path, shipped_figures, shipped_systems
from boltzport.run.plan import Plan, Planned, every_method, make_plan
from boltzport.run.presets import LayoutKind, Preset, Recipe, recipe
from boltzport.run.proposal import flow_proposal
from boltzport.run.request import default_directory, request
from boltzport.run.variants import VARIANTS, Variant, variants_named

__all__ = [
    "VARIANTS",
    "EvaluationEffort",
    "FittedDensity",
    "LayoutKind",
    "MoleculeConfig",
    "OpenRun",
    "OpenTarget",
    "Outcome",
    "Plan",
    "Planned",
    "Preset",
    "Recipe",
    "RunConfig",
    "RunResult",
    "Variant",
    "WeightedSamples",
    "default_directory",
    "evaluate_run",
    "every_method",
    "fit_density",
    "flow_proposal",
    "make_plan",
    "open_run",
    "open_target",
    "recipe",
    "request",
    "run_campaign",
    "run_path",
    "shipped_figures",
    "shipped_systems",
    "train",
    "variants_named",
]
