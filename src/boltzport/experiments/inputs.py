"""Files that a run depends on: copied into its directory, with checksums."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from boltzport.core.errors import InputError, RunError
from boltzport.core.files import RunDirectory, write_json
from boltzport.experiments.config import RunConfig


def keep_inputs(config: RunConfig, directory: RunDirectory, *, source: RunDirectory | None = None) -> None:
    """Copy the files of a molecule into a run directory, and record the checksums of them and of the configuration.

    Args:
        config: Configuration of the run.
        directory: Its directory, which has the configuration.
        source: Run directory that has the copies already; the user's own files by default.

    Raises:
        RunError: A file cannot be copied.
    """
    files = {}
    for name, given, copy in _files(config, source):
        try:
            directory.inputs.mkdir(exist_ok=True)
            shutil.copyfile(given, directory.inputs / copy)
        except OSError as error:
            raise RunError(f"{given} cannot be copied to {directory.inputs}: {error.strerror or error}") from error
        files[name] = {"file": copy, "sha256": _checksum(directory.inputs / copy)}
    write_json(directory.checksums, {"config.toml": _checksum(directory.config), "inputs": files})


def with_inputs(config: RunConfig, directory: RunDirectory) -> RunConfig:
    """The configuration with the paths of the copies in the run directory.

    Raises:
        InputError: A copy is missing or was changed.
    """
    copies = {}
    for name, entry in (_record(directory).get("inputs") or {}).items():
        copy = directory.inputs / entry["file"]
        if not copy.is_file() or _checksum(copy) != entry["sha256"]:
            raise InputError(f"{copy} was changed since the run was made, or is missing; restore it, or train again")
        copies[name] = str(copy)
    field = tuple(copies.get(name, name) for name in config.molecule.forcefield)
    return replace(
        config, system=copies.get(config.system, config.system), molecule=replace(config.molecule, forcefield=field)
    )


def check_config(directory: RunDirectory) -> None:
    """Check that the configuration of a run is the one that it was started with.

    Raises:
        InputError: It was edited.
    """
    known = _record(directory).get("config.toml")
    if known is not None and known != _checksum(directory.config):
        raise InputError(
            f"{directory.config} was edited since the run was made: the flow belongs to the former settings. Undo the "
            "edit, or train a new run with the new settings"
        )


class _File(NamedTuple):
    """A file of the user: its name in the configuration, where it is, and the name of its copy."""

    name: str
    path: Path
    copy: str


def _files(config: RunConfig, source: RunDirectory | None) -> list[_File]:
    if source is None:
        paths = [(name, _path(name)) for name in _names(config)]
        return [_File(name, path, f"{number}-{path.name}") for number, (name, path) in enumerate(paths)]
    kept = (_record(source).get("inputs") or {}).items()
    return [_File(name, source.inputs / entry["file"], entry["file"]) for name, entry in kept]


def _names(config: RunConfig) -> list[str]:
    """Files of the user that the molecule is built from, as the configuration names them."""
    if config.kind != "molecule" or config.molecule.source is not None:
        return []
    from boltzport.molecules import shipped_forcefields

    shipped = shipped_forcefields()
    names = [name for name in config.molecule.forcefield if not {name, f"{name}.xml"} & set(shipped)]
    # A sequence has no dots or slashes, and precedes a file of the same name.
    of_file = any(sign in config.system for sign in "/\\.")
    return [name for name in ([config.system] if of_file else []) + names if _path(name).is_file()]


def _path(name: str) -> Path:
    return Path(name) if Path(name).is_file() else Path(f"{name}.xml")


def _record(directory: RunDirectory) -> dict[str, Any]:
    if not directory.checksums.is_file():
        return {}
    try:
        record = json.loads(directory.checksums.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{directory.checksums} is not JSON: {error}; restore it") from error
    if not isinstance(record, dict):
        raise InputError(f"{directory.checksums}: expected an object, got {type(record).__name__}; restore it")
    return record


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
