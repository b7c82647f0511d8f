"""The kind of flow as a setting, `flow=NAME`; each kind has its own size settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from boltzport.experiments.settings import with_settings
from boltzport.flows import FlowConfig, flow_entry


@dataclass(frozen=True, kw_only=True)
class FlowSetting:
    """The kind of flow.

    Attributes:
        flow: Name of the kind.
    """

    flow: str

    def __post_init__(self) -> None:
        flow_entry(self.flow)


def chosen_kind(settings: Sequence[str], *, default: str) -> str:
    """The kind of flow that settings choose.

    Args:
        settings: Settings as `key=value`.
        default: Kind if the settings choose none.

    Raises:
        InputError: There is no such kind.
    """
    ahead = [setting for setting in settings if setting.partition("=")[0].strip() == "flow"]
    choice: FlowSetting = with_settings({"kind": FlowSetting(flow=default)}, ahead)["kind"]
    return choice.flow


def with_flow(
    parts: dict[str, Any], settings: Sequence[str], *, kind: str, sizes: Mapping[str, FlowConfig]
) -> dict[str, Any]:
    """Apply settings to the flow of the kind that they choose, and to other parts.

    The kind is read first, so that `flow=NAME` may come before or after a size of that flow.

    Args:
        parts: Dataclasses by name, without the flow.
        settings: Settings as `key=value`.
        kind: Kind of flow if the settings choose none.
        sizes: Size of the flow by kind.

    Returns:
        The parts, with the size of the flow as `flow`.

    Raises:
        InputError: A setting is unknown, out of its range, or belongs to another kind of flow.
    """
    chosen = chosen_kind(settings, default=kind)
    others = {f"flow={name}": size for name, size in sizes.items() if name != chosen}
    known = {"flow": sizes[chosen], **parts, "kind": FlowSetting(flow=chosen)}
    return with_settings(known, settings, others=others)
