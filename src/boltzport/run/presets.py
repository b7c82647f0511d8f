"""Presets: how large a flow, and on which layout."""

from enum import StrEnum

import torch

from boltzport.boltzmann import informed_layout, paper_layout
from boltzport.flow import LAPTOP, PAPER, Flow, FlowConfig
from boltzport.molecule import Molecule
from boltzport.run.energies import Energy


class Preset(StrEnum):
    """How much work a training may be."""

    QUICK = "quick"
    LAPTOP = "laptop"
    PAPER = "paper"

    @property
    def flow(self) -> FlowConfig:
        """Size of the flow."""
        return PAPER if self is Preset.PAPER else LAPTOP


def build_flow(molecule: Molecule, energy: Energy, preset: Preset, *, generator: torch.Generator) -> Flow:
    """A new flow for a molecule: its base density, on the paper's layout or on the one that knows the force field."""
    layout = paper_layout(molecule) if preset is Preset.PAPER else informed_layout(molecule, energy.evaluate)
    return Flow(layout, preset.flow, generator=generator)
