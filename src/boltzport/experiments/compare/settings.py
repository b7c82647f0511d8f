"""Settings of runs, and names for groups of runs by the settings in which they differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from boltzport.reporting import RunData

Settings = Mapping[str, Any]
"""Settings of a run by name; those of flow and method are `flow.NAME` and `method.NAME`; lists are tuples."""

NOT_SETTINGS = {"system", "kind", "method", "seed", "version", "command", "molecule"}
KIND = "flow.kind"
"""Setting for the kind of flow; the other settings of the flow are its sizes."""
OLDEST_KIND = "couplings"
"""Kind of flow of a configuration that names none: it was the only kind."""
MOST = 4
"""Maximum number of settings in the name of a group; the others are counted."""


def settings_of(run: RunData) -> dict[str, Any]:
    """All settings of a run except its target, its method and its seed."""
    found: dict[str, Any] = {}
    for key, value in run.config.items():
        if key in NOT_SETTINGS:
            continue
        if isinstance(value, Mapping):
            part = "method" if key == "settings" else key
            found |= {KIND: OLDEST_KIND} if part == "flow" else {}
            found |= {f"{part}.{name}": _hashable(item) for name, item in value.items()}
        else:
            found[key] = _hashable(value)
    return found


def target_of(run: RunData) -> tuple[object, ...]:
    """Key that compared runs must share: the system and the options of its molecule."""
    made = run.config.get("molecule", {})
    return (run.name, *sorted((key, _hashable(value)) for key, value in made.items()))


def differing(settings: Sequence[Settings]) -> list[str]:
    """Names of the settings that differ, in the order in which they are written.

    Flows of different kinds also differ in their sizes: these are named only if flows of one kind differ in them.

    Example:
        >>> couplings, molecular = {"flow.kind": "couplings", "flow.bins": 8}, {"flow.kind": "molecular"}
        >>> differing([couplings, molecular])
        ['flow.kind']
        >>> differing([couplings, molecular, couplings | {"flow.bins": 4}])
        ['flow.kind', 'flow.bins']
    """
    names = dict.fromkeys(name for found in settings for name in found)
    kinds = {found.get(KIND) for found in settings}
    alike = [[found for found in settings if found.get(KIND) == kind] for kind in kinds]
    return [
        name
        for name in names
        if any(_differ(found, name) for found in (alike if name.startswith("flow.") and name != KIND else [settings]))
    ]


def of_method(name: str) -> bool:
    """Whether a setting belongs to the method: the same name may mean different things in two methods."""
    return name.startswith("method.")


def shown(name: str) -> str:
    """Name of a setting as the user writes it."""
    return "flow" if name == KIND else name.removeprefix("method.")


def describe(settings: Settings, names: Sequence[str], *, most: int = MOST) -> str:
    """Some of the settings in one line.

    Example:
        >>> describe({"method.reach": float("inf"), "flow.hidden": (64, 8)}, ["method.reach", "flow.hidden", "layout"])
        'reach=inf, flow.hidden=64+8, layout=none'
    """
    parts = [f"{shown(name)}={_text(settings.get(name))}" for name in names[:most]]
    more = len(names) - most
    return ", ".join([*parts, *([f"{more} more"] if more > 0 else [])])


def _differ(settings: Sequence[Settings], name: str) -> bool:
    return len({found.get(name) for found in settings}) > 1


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return "+".join(_text(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _hashable(value: Any) -> Any:
    return tuple(_hashable(item) for item in value) if isinstance(value, list) else value
