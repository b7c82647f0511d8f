"""Commands that produce what a page lacks."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory, read_json
from boltzport.reporting.rundata import RunData


def commands(run: RunData) -> dict[str, str]:
    """Commands that produce missing parts of the page, and the command of the run."""
    return {
        "evaluate": shlex.join(["boltzport", "evaluate", str(run.path)]),
        "reference": shlex.join(["boltzport", "reference", *_molecule(run), "--out", "reference"]),
        "compare": shlex.join(["boltzport", "evaluate", str(run.path), "--reference", "reference"]),
        "train": str(run.config.get("command", "")),
    }


def _molecule(run: RunData) -> list[str]:
    """The molecule of a run and its options, from the files that the run has, as a command takes them."""
    molecule, directory = run.config.get("molecule", {}), RunDirectory(run.path)
    copies = _copies(directory)
    if molecule.get("source") == "system":
        words = [str(directory.structure), "--system-xml", str(directory.system)]
    else:
        words = [copies.get(run.name, run.name)]
        for name in molecule.get("forcefield", []):
            words += ["--forcefield", copies.get(str(name), str(name))]
        words += ["--constraints", str(molecule["constraints"])] if molecule.get("constraints") else []
        words += ["--ph", f"{molecule['ph']:g}"] if molecule.get("ph", 7.0) != 7.0 else []
        words += [word for chain in molecule.get("keep") or [] for word in ("--keep", str(chain))]
        words += ["--add-hydrogens"] if molecule.get("add_hydrogens") else []
    energy = molecule.get("energy")
    # No command has the user's own energy.
    words += ["--energy", str(energy)] if energy and energy != "given" else []
    return words + (["--temperature", f"{run.temperature:g}"] if run.temperature not in (None, 300.0) else [])


def _copies(directory: RunDirectory) -> dict[str, str]:
    """The copies of the user's files in a run directory, by the names of the files, where those are gone."""
    try:
        inputs: Any = read_json(directory.checksums).get("inputs")
    except InputError:
        return {}
    if not isinstance(inputs, Mapping):
        return {}
    known = {str(name): entry.get("file") for name, entry in inputs.items() if isinstance(entry, Mapping)}
    return {name: str(directory.inputs / str(file)) for name, file in known.items() if not Path(name).is_file()}
