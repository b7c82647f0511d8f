"""Normalizing flows of splines on intervals and circles."""

from boltzport.flows.broad import broadened, defended
from boltzport.flows.couplings import LAPTOP, PAPER, Activation, CouplingConfig, CouplingFlow
from boltzport.flows.drawing import Draw, draw, draw_along
from boltzport.flows.flow import Flow, Samples
from boltzport.flows.halves import HalvedFlow, SlopedSamples
from boltzport.flows.mixed import MixedFlow, MovedFlow
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.flow import MolecularFlow
from boltzport.flows.registry import (
    FLOWS,
    OLDEST,
    FlowConfig,
    FlowKind,
    build_flow,
    flow_entry,
    flow_kind,
    load_flow,
)

__all__ = [
    "FLOWS",
    "LAPTOP",
    "OLDEST",
    "PAPER",
    "Activation",
    "CouplingConfig",
    "CouplingFlow",
    "Draw",
    "Flow",
    "FlowConfig",
    "FlowKind",
    "HalvedFlow",
    "MixedFlow",
    "MolecularConfig",
    "MolecularFlow",
    "MovedFlow",
    "Samples",
    "SlopedSamples",
    "broadened",
    "build_flow",
    "defended",
    "draw",
    "draw_along",
    "flow_entry",
    "flow_kind",
    "load_flow",
]
