"""Registry of the kinds of flows by name: build from a configuration, load from a file."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors
import torch

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout
from boltzport.core.records import from_plain
from boltzport.core.skeleton import Skeleton
from boltzport.flows.couplings.config import CouplingConfig
from boltzport.flows.couplings.flow import CouplingFlow
from boltzport.flows.flow import FORMAT, Flow
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.flow import MolecularFlow

FlowConfig = CouplingConfig | MolecularConfig
"""Configuration of a flow of any kind."""

OLDEST = "couplings"
"""Kind of a flow whose file or configuration does not name one, from when it was the only one."""


@dataclass(frozen=True, kw_only=True)
class FlowKind:
    """A kind of flow.

    Attributes:
        flow: Class of the flow, called with layout, config, generator and compiled.
        config: Class of its configuration.
    """

    flow: Callable[..., Flow]
    config: type[CouplingConfig] | type[MolecularConfig]


FLOWS: dict[str, FlowKind] = {
    MolecularFlow.kind: FlowKind(flow=MolecularFlow, config=MolecularConfig),
    CouplingFlow.kind: FlowKind(flow=CouplingFlow, config=CouplingConfig),
}
"""Kinds of flows by their name in files and settings."""


def flow_entry(name: str) -> FlowKind:
    """Return the registry entry of a kind of flow.

    Raises:
        InputError: There is no such kind.
    """
    if name not in FLOWS:
        raise InputError(f"flow: expected {' or '.join(FLOWS)}, got {name}")
    return FLOWS[name]


def flow_kind(config: FlowConfig) -> str:
    """Name of the kind of flow that a configuration belongs to.

    Example:
        >>> flow_kind(CouplingConfig(bins=4))
        'couplings'
    """
    return next(name for name, entry in FLOWS.items() if type(config) is entry.config)


def build_flow(layout: Layout, config: FlowConfig, *, generator: torch.Generator, compiled: bool = True) -> Flow:
    """Build a new flow of the kind that a configuration belongs to.

    Args:
        layout: The coordinates.
        config: Size of the flow.
        generator: Random generator for masks and initial weights.
        compiled: Whether to compile the splines at their first use, if a compiler is available.
    """
    return FLOWS[flow_kind(config)].flow(layout, config, generator=generator, compiled=compiled)


def load_flow(path: Path, *, compiled: bool = True) -> Flow:
    """Load a flow of any kind from a file written by `Flow.save`.

    Raises:
        InputError: The file is missing, is not a flow, or holds an unknown kind of flow.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise InputError(f"no such file: {path}") from None
    except safetensors.SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file: {error}") from error
    if header.get("format") != str(FORMAT):
        raise InputError(f"{path} is not a flow of format {FORMAT}; it was written by another program or version")
    kind = header.get("kind", OLDEST)
    if kind not in FLOWS:
        raise InputError(f"{path} is a flow of kind {kind}, expected {' or '.join(FLOWS)}; a newer version wrote it")
    try:
        skeleton = Skeleton.from_json(json.loads(header["skeleton"])) if "skeleton" in header else None
        layout = Layout.from_json(json.loads(header["layout"]), skeleton=skeleton)
        config: FlowConfig = from_plain(FLOWS[kind].config, json.loads(header["config"]))
        flow = build_flow(layout, config, generator=torch.Generator().manual_seed(0), compiled=compiled)
        flow.to(_dtype(header, flow, state)).load_state_dict(state)
    except InputError:
        raise
    # A damaged header can hold anything.
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, LookupError, ArithmeticError) as error:
        # Torch lists every tensor that does not match; the first line is enough.
        reason = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{path} is not a flow of this version: {reason[0]}") from error
    return flow


def _dtype(header: Mapping[str, str], flow: Flow, state: Mapping[str, torch.Tensor]) -> torch.dtype:
    """Data type that a flow computes in; older files do not store it, so it is that of their weights."""
    if "dtype" not in header:
        return state[next(name for name, _ in flow.named_parameters())].dtype
    found = getattr(torch, header["dtype"], None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no such precision: {header['dtype']}")
    return found
