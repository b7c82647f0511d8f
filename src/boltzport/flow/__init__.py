"""Normalizing flows of splines on intervals and circles."""

from boltzport.flow.couplings import LAPTOP, PAPER, Activation, CouplingConfig, CouplingFlow
from boltzport.flow.flow import Flow, Samples
from boltzport.flow.halves import HalvedFlow, SlopedSamples
from boltzport.flow.molecular.config import MolecularConfig
from boltzport.flow.molecular.flow import MolecularFlow
from boltzport.flow.registry import (
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
    "Flow",
    "FlowConfig",
    "FlowKind",
    "HalvedFlow",
    "MolecularConfig",
    "MolecularFlow",
    "Samples",
    "SlopedSamples",
    "build_flow",
    "flow_entry",
    "flow_kind",
    "load_flow",
]
