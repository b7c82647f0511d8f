"""Points that are divided among the ranks: joined when a checkpoint is written, divided again when it is read."""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from boltzport.core.parallel import Ranks, ranks
from boltzport.training.state import Checkpoint

Parts = dict[str, list[int]]
"""Number of points of each rank, by the path of the entry."""


def joined(state: Checkpoint, divided: Sequence[str]) -> tuple[Checkpoint, Parts]:
    """A checkpoint with the points of all ranks, and how many each of them had.

    Args:
        state: Checkpoint of this rank.
        divided: Patterns of the paths of its divided entries.
    """
    parts: Parts = {}

    def join(path: str, tensor: Tensor) -> Tensor:
        parts[path] = ranks().sizes(len(tensor))
        return ranks().gather(tensor)

    return (state, parts) if ranks().alone else (_changed(state, divided, join), parts)


def own_part(state: Checkpoint, divided: Sequence[str], parts: Parts | None) -> Checkpoint:
    """The part of this rank of a joined checkpoint: what it had, or an equal share if there were other ranks.

    Args:
        state: Joined checkpoint.
        divided: Patterns of the paths of its divided entries.
        parts: Number of points that each rank had; None if one had all of them.
    """
    rank, world = ranks().rank, ranks().world

    def part(path: str, tensor: Tensor) -> Tensor:
        sizes = (parts or {}).get(path, [])
        if len(sizes) != world:
            sizes = [Ranks(other, world).share(len(tensor)) for other in range(world)]
        start = sum(sizes[:rank])
        return tensor[start : start + sizes[rank]].clone()

    return state if world == 1 else _changed(state, divided, part)


def on(state: Checkpoint, device: torch.device) -> Checkpoint:
    """A checkpoint with its tensors on a device; checkpoints are read to the processor."""
    if device.type == "cpu":
        return state
    return {key: _moved(value, device) for key, value in state.items()}


def _moved(value: Any, device: torch.device) -> Any:
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    return [_moved(each, device) for each in value] if isinstance(value, list | tuple) else value


def _changed(value: Any, divided: Sequence[str], change: Callable[[str, Tensor], Tensor], path: str = "") -> Any:
    """A copy of nested dictionaries and lists, with the divided tensors changed."""
    if isinstance(value, Tensor):
        return change(path, value) if any(_matches(path, pattern) for pattern in divided) else value
    if isinstance(value, dict):
        return {key: _changed(each, divided, change, f"{path}.{key}" if path else key) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(each, divided, change, f"{path}.{place}") for place, each in enumerate(value)]
    return value


def _matches(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern, name by name; weights of a flow have dots in their names."""
    names, wanted = path.split("."), pattern.split(".")
    return len(names) == len(wanted) and all(map(fnmatchcase, names, wanted))
