"""Coordinates, flow and settings for a system, a preset and a method."""

from dataclasses import dataclass
from typing import Any

from boltzport.core.errors import InputError
from boltzport.core.layout import LayoutKind
from boltzport.flows import FLOWS, LAPTOP, PAPER, CouplingConfig, FlowConfig, MolecularConfig
from boltzport.targets import TOYS
from boltzport.training.methods import MethodConfig
from boltzport.training.presets.cmt import CMT_PRESETS
from boltzport.training.presets.fab import FAB_PRESETS
from boltzport.training.presets.forward_kl import FORWARD_KL_PRESETS
from boltzport.training.presets.kinds import LARGE, MethodPresets, Preset
from boltzport.training.presets.reverse_kl import REVERSE_KL_PRESETS
from boltzport.training.presets.ta_bg import TA_BG_PRESETS


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Settings of a preset for a system.

    Attributes:
        layout: Coordinates and base density; a toy has its own.
        kind: Default kind of flow; the same for every method.
        flows: Size of the flow by kind; the same for every method.
        methods: Settings of the method by kind of flow.
    """

    layout: LayoutKind
    kind: str
    flows: dict[str, FlowConfig]
    methods: dict[str, MethodConfig]

    @property
    def flow(self) -> FlowConfig:
        """Size of the flow of the default kind."""
        return self.flows[self.kind]


METHOD_PRESETS: dict[str, MethodPresets[Any]] = {
    "cmt": CMT_PRESETS,
    "forward-kl": FORWARD_KL_PRESETS,
    "reverse-kl": REVERSE_KL_PRESETS,
    "fab": FAB_PRESETS,
    "ta-bg": TA_BG_PRESETS,
}
"""Presets by the name of the method."""
SMALL_FLOW = CouplingConfig(pairs=4, hidden=(64, 64))
"""Flow for a few dimensions."""
_TOY_FLOWS = {"gmm-40": CouplingConfig(pairs=6, bins=16, hidden=(96, 96))}


def recipe(
    system: str, preset: Preset, method: str = "cmt", *, kind: str | None = None, atoms: int | None = None
) -> Recipe:
    """Settings of a preset for a system.

    Args:
        system: Name of a toy, of a molecule of the paper, or of any other molecule.
        preset: The preset.
        method: Name of the method.
        kind: `molecule`, `toy`, or `density` for the user's own; the name decides by default.
        atoms: Number of atoms of a molecule, if known: large molecules have their own settings.

    Raises:
        InputError: The paper has no such system.
    """
    presets = METHOD_PRESETS[method]
    if kind == "density" or (kind != "molecule" and system in TOYS):
        if preset is Preset.PAPER:
            raise InputError(f"the paper has no {system}; expected the preset quick or laptop")
        flows, settings = flow_sizes(_TOY_FLOWS.get(system, SMALL_FLOW)), presets.toys.get(system, presets.small)
        return Recipe(layout=LayoutKind.OWN, kind="couplings", flows=flows, methods=dict.fromkeys(flows, settings))
    if preset is not Preset.PAPER:
        large = atoms is not None and atoms > LARGE
        by_flow = presets.by_flow | (presets.large if large else {})
        methods = dict.fromkeys(FLOWS, presets.molecules[preset]) | {
            kind: by_preset[preset] for kind, by_preset in by_flow.items()
        }
        flows = flow_sizes(LAPTOP, geometry=large)
        return Recipe(layout=LayoutKind.HARMONIC, kind="molecular", flows=flows, methods=methods)
    # A molecule that the paper does not have takes the settings of its hexapeptide.
    settings = presets.paper.get(system, presets.paper["alanine-hexapeptide"])
    methods = dict.fromkeys(FLOWS, settings)
    return Recipe(layout=LayoutKind.PAPER, kind="couplings", flows=flow_sizes(PAPER), methods=methods)


def flow_sizes(couplings: CouplingConfig, *, geometry: bool = False) -> dict[str, FlowConfig]:
    """Size of the flow by kind.

    Args:
        couplings: Size of the couplings, which depends on the system.
        geometry: Whether a molecular flow sees where its torsions place the atoms.
    """
    return {"molecular": MolecularConfig(geometry=geometry), "couplings": couplings}
