"""Runs: from what a user asks for to a directory with a trained flow. Molecules are imported only when asked for."""

from boltzport.run.build import OpenTarget, open_target
from boltzport.run.config import MoleculeConfig, RunConfig
from boltzport.run.density import FittedDensity, WeightedSamples, fit_density
from boltzport.run.evaluation import evaluate_run
from boltzport.run.loop import Outcome, train
from boltzport.run.opening import OpenRun, open_run, run_path
from boltzport.run.presets import LayoutKind, Preset, Recipe, recipe
from boltzport.run.request import default_directory, request

__all__ = [
    "FittedDensity",
    "LayoutKind",
    "MoleculeConfig",
    "OpenRun",
    "OpenTarget",
    "Outcome",
    "Preset",
    "Recipe",
    "RunConfig",
    "WeightedSamples",
    "default_directory",
    "evaluate_run",
    "fit_density",
    "open_run",
    "open_target",
    "recipe",
    "request",
    "run_path",
    "train",
]
