"""What may be typed when a run is resumed, and that only one process trains it."""

import dataclasses
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from boltzport.core.errors import InputError
from boltzport.experiments.config import MoleculeConfig, RunConfig
from boltzport.experiments.request import full_name, request
from boltzport.flows import flow_kind


def check_same(
    saved: RunConfig,
    path: Path,
    *,
    system: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    seed: int | None = None,
    settings: Sequence[str] = (),
    budget: float | None = None,
    molecule: MoleculeConfig | None = None,
) -> None:
    """Check that what a user asks for when resuming is what the run was started with; None for what is not given.

    Args:
        saved: Configuration of the run.
        path: Its directory, for the message.
        system: Name of the system.
        method: Name of the method.
        preset: Preset.
        seed: Seed.
        settings: `key=value`.
        budget: Maximum number of target evaluations.
        molecule: How the molecule is built.

    Raises:
        InputError: Something differs.
    """
    asked = {"system": system, "method": method, "preset": preset, "seed": seed}
    if system is not None:
        asked["system"] = full_name(system)
    # A file is known by its name: the run may be resumed from another directory.
    if system is not None and Path(system).name == Path(saved.system).name:
        asked["system"] = saved.system
    differing = [
        f"{name} {value} (the run has {getattr(saved, name)})"
        for name, value in asked.items()
        if value is not None and value != getattr(saved, name)
    ]
    if molecule is not None:
        of_run = dataclasses.asdict(saved.molecule) if saved.kind == "molecule" else {}
        differing += [
            f"{name} {value} (the run has {of_run.get(name)})"
            for name, value in _given(molecule).items()
            if value != of_run.get(name)
        ]
    if not differing and (settings or budget is not None):
        differing = _differing_settings(saved, settings, budget)
    if differing:
        raise InputError(
            f"{path} cannot be resumed with another {'; another '.join(differing)}. Leave out what the run directory "
            "has, or start a new run"
        )


@contextmanager
def only_process(path: Path) -> Iterator[None]:
    """Lock a run directory while the block runs, so that no second process trains in it.

    Raises:
        InputError: Another process does.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such lock
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        # The lock ends with the process, however it ends. Some network file systems cannot lock a directory.
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    f"{path} is in use: another process is training in it; wait until it ends, or stop it first"
                ) from None
        yield
    finally:
        os.close(descriptor)


def _given(molecule: MoleculeConfig) -> dict[str, object]:
    """Options that differ from their defaults."""
    plain = dataclasses.asdict(MoleculeConfig())
    return {name: value for name, value in dataclasses.asdict(molecule).items() if value != plain[name]}


def _differing_settings(saved: RunConfig, settings: Sequence[str], budget: float | None) -> list[str]:
    if saved.kind == "density":
        raise InputError("settings: a density's run is resumed with the settings of its directory; leave them out")
    asked = request(
        saved.system,
        kind=saved.kind,
        method=saved.method,
        preset=saved.preset,
        settings=settings,
        budget=budget,
        molecule=saved.molecule if saved.kind == "molecule" else None,
    )
    found = []
    for setting in settings:
        key = setting.partition("=")[0].rpartition(".")[2].strip()
        for own, other in ((asked.settings, saved.settings), (asked.flow, saved.flow)):
            here, there = (getattr(part, key, None) for part in (own, other))
            if here != there:
                found.append(f"{key} {here} (the run has {there})")
        if key == "layout" and asked.layout != saved.layout:
            found.append(f"layout {asked.layout} (the run has {saved.layout})")
        if key == "flow" and flow_kind(asked.flow) != flow_kind(saved.flow):
            found.append(f"flow {flow_kind(asked.flow)} (the run has {flow_kind(saved.flow)})")
    if budget is not None and not found and asked.settings != saved.settings:
        found.append(f"budget {budget:g}")
    return found
