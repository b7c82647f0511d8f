"""Presets: how large a flow, and on which layout."""

from enum import StrEnum

import torch

from boltzport.flow import LAPTOP, PAPER, Flow, FlowConfig
from boltzport.forcefield import ForceField, extract
from boltzport.layout import Layout
from boltzport.molecule import Molecule
from boltzport.targets import informed_layout, paper_layout


class Preset(StrEnum):
    """How much work a training may be."""

    QUICK = "quick"
    LAPTOP = "laptop"
    PAPER = "paper"

    @property
    def flow(self) -> FlowConfig:
        """Size of the flow."""
        return PAPER if self is Preset.PAPER else LAPTOP


def build_layout(molecule: Molecule, preset: Preset) -> Layout:
    """The paper's layout for its preset, else the one that knows the force field."""
    if preset is Preset.PAPER:
        return paper_layout(molecule)
    # A few hundred evaluations: not worth a compilation.
    return informed_layout(molecule, ForceField(extract(molecule.system), compiled=False))


def build_flow(molecule: Molecule, preset: Preset, *, generator: torch.Generator) -> Flow:
    """A new flow for a molecule: its base density."""
    return Flow(build_layout(molecule, preset), preset.flow, generator=generator)
