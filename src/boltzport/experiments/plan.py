"""Plan the runs of a comparison: every method or variant, with equal budgets and several seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.experiments.build import kind_of, load_molecule
from boltzport.experiments.config import MoleculeConfig, RunConfig
from boltzport.experiments.request import request
from boltzport.experiments.samples import require_samples
from boltzport.experiments.variants import Variant, with_equal_steps
from boltzport.flows import FLOWS
from boltzport.training.methods import METHODS, method_entry
from boltzport.training.presets import Preset

SAMPLES = "data"
"""Setting that names the reference ensemble that a method learns from."""


class Planned(NamedTuple):
    """A run of a campaign.

    Attributes:
        name: Name of its directory.
        config: Its configuration.
        path: Its directory.
    """

    name: str
    config: RunConfig
    path: Path


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All runs of a campaign.

    Attributes:
        runs: The runs in order: all methods with the first seed come first.
        left_out: One sentence for each method that is left out, with the reason.
        reference: Reference of the evaluations; None for a toy, which has exact samples.
    """

    runs: tuple[Planned, ...]
    left_out: tuple[str, ...]
    reference: Path | None


def every_method(names: Sequence[str] = ()) -> tuple[Variant, ...]:
    """Methods by name, without changes; all methods by default.

    Raises:
        InputError: There is no such method.
    """
    for name in names:
        method_entry(name)
    return tuple(Variant(name, name, ()) for name in names or METHODS)


def make_plan(
    system: str,
    variants: Sequence[Variant],
    folder: Path,
    *,
    seeds: int = 2,
    budget: float | None = None,
    preset: Preset = Preset.LAPTOP,
    settings: Sequence[str] = (),
    molecule: MoleculeConfig | None = None,
    reference: Path | None = None,
) -> Plan:
    """Plan runs, and check the settings, samples and molecule of all of them before the first starts.

    Args:
        system: Toy or molecule.
        variants: Methods or variants to compare.
        folder: Directory of the runs; each has its own subdirectory NAME-seedK.
        seeds: Number of seeds.
        budget: Maximum number of target evaluations of each run; the preset's by default.
        preset: Preset that the settings start from.
        settings: `key=value` for all methods, or `METHOD.key=value` for one.
        molecule: How the molecule is built.
        reference: Reference ensemble of a molecule, for evaluations and for methods that learn from samples, unless
            their setting `data` names another.

    Raises:
        InputError: A setting is wrong, there is no reference or no such molecule, nothing is left to run, or a
            directory holds another run.
    """
    if seeds < 1:
        raise InputError(f"seeds: expected at least 1, got {seeds}")
    if reference is not None and kind_of(system) == "toy":
        raise InputError(f"reference: {system} is a toy and has exact samples; leave it out")
    if reference is not None:
        # This imports OpenMM, which toys do not need.
        from boltzport.ensembles.reference import read_provenance

        read_provenance(reference)
    _check_settings(settings, variants)
    runs, left_out = [], []
    for variant in variants:
        # The settings of the variant come last, so that a setting for all variants cannot override them.
        given = [*_own(settings, variant.method), *variant.settings]
        named = any(_field(setting) == SAMPLES for setting in given)
        if method_entry(variant.method).needs_samples and kind_of(system) == "molecule" and not named:
            if reference is None:
                left_out.append(_without_samples(variant.name, system))
                continue
            given.append(f"{SAMPLES}={reference}")
        try:
            config = request(
                system, method=variant.method, preset=preset, settings=given, budget=budget, molecule=molecule
            )
        except InputError as error:
            raise InputError(f"{variant.name}: {error}") from error
        if variant.settings:
            config = replace(config, settings=with_equal_steps(config.settings, [*map(_field, given)]))
        require_samples(config)
        for seed in range(seeds):
            name = f"{variant.name}-seed{seed}"
            runs.append(Planned(name, replace(config, seed=seed), folder / name))
    if not runs:
        raise InputError(f"nothing to run: {' '.join(left_out)}")
    if kind_of(system) == "molecule":
        load_molecule(runs[0].config)
    runs.sort(key=lambda planned: planned.config.seed)
    for planned in runs:
        _check_folder(planned)
    return Plan(runs=tuple(runs), left_out=tuple(left_out), reference=reference)


def _own(settings: Sequence[str], method: str) -> list[str]:
    """The settings of a method, without its name."""
    mine, others = f"{method}.", tuple(f"{name}." for name in METHODS if name != method)
    return [setting.removeprefix(mine) for setting in settings if not setting.startswith(others)]


def _field(setting: str) -> str:
    """The name of a setting, without its prefix."""
    return setting.partition("=")[0].rpartition(".")[2].strip()


def _check_settings(settings: Sequence[str], variants: Sequence[Variant]) -> None:
    """Refuse a setting that no run uses: it would be ignored silently."""
    run = {variant.method for variant in variants}
    for setting in settings:
        prefix = setting.partition("=")[0].partition(".")[0]
        if prefix in METHODS and prefix not in run:
            raise InputError(f"--set {setting}: {prefix} is not among the methods {', '.join(sorted(run))}")
        knows = sorted(method for method in run if _field(setting) in _known(method))
        if prefix not in METHODS and 0 < len(knows) < len(run):
            ours = ", ".join(f"--set {method}.{setting}" for method in knows)
            raise InputError(f"--set {setting}: not all methods have this setting; for those that do: {ours}")
        if all(_field(setting) in map(_field, variant.settings) for variant in variants):
            raise InputError(f"--set {setting}: every variant has its own {_field(setting)}; leave it out")


def _known(method: str) -> set[str]:
    """Names of the settings that a run of a method has."""
    parts = (*(kind.config for kind in FLOWS.values()), method_entry(method).config)
    return {"layout", "flow", *(field.name for part in parts for field in fields(part))}


def _check_folder(planned: Planned) -> None:
    """Check that a directory holds the planned run, so that it can be skipped or resumed."""
    directory = RunDirectory(planned.path)
    if not directory.config.is_file():
        return
    saved = RunConfig.load(directory.config)
    if replace(saved, version="", command="") != replace(planned.config, version="", command=""):
        raise InputError(f"{planned.path} holds a run with other settings; choose another directory, or remove it")


def _without_samples(name: str, system: str) -> str:
    return (
        f"{name} is left out: it learns from samples, and there are none of {system}. Make a reference with "
        f"`boltzport reference {system} --out DIR`, and pass it as the reference."
    )
