"""Samples of the target for methods that learn from samples. Molecules are imported only when one is used."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.experiments.config import RunConfig
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose, Toy
from boltzport.training import WeightedPoints
from boltzport.training.methods import ForwardKLConfig

if TYPE_CHECKING:
    from boltzport.ensembles.reference import Reference
    from boltzport.targets.boltzmann import BoltzmannTarget

_LOG = logging.getLogger("boltzport")

SEED = 2**30
"""Added to the seed of the run: the samples of a toy are the same in a resumed run, and differ from the training's."""
CHECKED = 200
"""Number of frames of a reference whose energies are compared with the target's."""
FEWEST = 0.5
"""Fraction of the samples that must lie in the range of the flow."""
BATCH = 20_000
"""Number of frames whose coordinates are transformed at once."""


def require_samples(config: RunConfig, given: "Reference | None" = None) -> None:
    """Check that a run has the samples that it learns from, before anything else is done.

    Args:
        config: Configuration of the run.
        given: Reference that the user passed.

    Raises:
        InputError: It does not.
    """
    settings = config.settings
    if given is not None or config.kind == "toy" or not isinstance(settings, ForwardKLConfig):
        return
    # An empty path would be the current directory.
    if not settings.data or not Path(settings.data).is_dir():
        got = f"{settings.data}, which is not a directory" if settings.data else "none"
        raise InputError(
            f"{config.method} learns {config.system} from samples: expected a reference, or the setting data=DIR with "
            f"the directory of one, got {got}; make one with `boltzport reference {config.system} --out DIR`"
        )


def with_samples(config: RunConfig, reference: "Reference | Path | str") -> RunConfig:
    """The configuration with the directory of a reference, so that the run can be resumed without passing it again.

    Raises:
        InputError: The method does not learn from samples, or the target is not a molecule.
    """
    settings = config.settings
    source = reference if isinstance(reference, Path | str) else reference.source
    if not isinstance(settings, ForwardKLConfig) or config.kind != "molecule":
        why = f"{config.method} does not learn from samples"
        why = why if config.kind == "molecule" else f"{config.system} is not a molecule"
        raise InputError(f"reference: {why}; leave it out")
    if not isinstance(source, Path | str):
        return config
    return replace(config, settings=replace(settings, data=str(Path(source).resolve())))


def training_samples(
    config: RunConfig, target: CountedTarget, flow: Flow, given: "Reference | None" = None
) -> WeightedPoints:
    """Training samples of a run: drawn from a toy, or taken from a reference ensemble.

    Samples outside the range of the flow are left out, and their number is logged.

    Args:
        config: Configuration of the run.
        target: Target of the run; that of a molecule is evaluated at a few frames, to check that they belong to it.
        flow: Flow that decides the range and the precision of the samples.
        given: Reference that the user passed; by default, the one that the settings name.

    Raises:
        InputError: The reference is incomplete, belongs to another molecule, or is mostly out of range.
    """
    settings = config.settings
    assert isinstance(settings, ForwardKLConfig)
    if isinstance(target.target, Toy):
        generator = torch.Generator().manual_seed(SEED + config.seed)
        points = target.target.sample(settings.samples, generator=generator)
        return _inside(points, torch.zeros(len(points), dtype=torch.float64), flow, config.system)
    if given is not None:
        return _from_reference(given, "the reference", settings.samples, target, flow)
    from boltzport.ensembles.reference import Reference

    return _from_reference(Reference.load(Path(settings.data)), settings.data, settings.samples, target, flow)


def _from_reference(dataset: "Reference", name: str, most: int, target: CountedTarget, flow: Flow) -> WeightedPoints:
    from boltzport.targets.boltzmann import BoltzmannTarget

    assert isinstance(target.target, BoltzmannTarget)
    _check_molecule(dataset, target, name)
    chosen = np.linspace(0, len(dataset) - 1, min(most, len(dataset))).round().astype(np.int64)
    weights = torch.from_numpy(dataset.weights[chosen].astype(np.float64))
    points = _points(target.target, dataset.coordinates[chosen])
    _LOG.info("samples: %d of the %d frames of %s%s", len(chosen), len(dataset), name, _cost(dataset))
    return _inside(points, weights.log(), flow, name)


def _points(target: "BoltzmannTarget", internal: np.ndarray) -> Tensor:
    parts = [torch.from_numpy(internal[start : start + BATCH]) for start in range(0, len(internal), BATCH)]
    return torch.cat([target.from_internal(part.double()).to(part.dtype) for part in parts])


def _check_molecule(dataset: "Reference", target: CountedTarget, name: str) -> None:
    """Check the number of coordinates and the energies, which also depend on the force field and the temperature."""
    from boltzport.analysis.evaluation import check_energies
    from boltzport.targets.boltzmann import BoltzmannTarget

    assert isinstance(target.target, BoltzmannTarget)
    molecule, of = target.target.molecule, dataset.provenance.get("system", "another molecule")
    if dataset.coordinates.shape[1] != len(target.layout):
        raise InputError(
            f"{name}: expected a reference of {molecule.name} with {len(target.layout)} coordinates, got one of {of} "
            f"with {dataset.coordinates.shape[1]}"
        )
    some = np.linspace(0, len(dataset) - 1, min(CHECKED, len(dataset))).round().astype(np.int64)
    with torch.no_grad():
        # In float64, as in the reference: rounded bond lengths would give rounded energies.
        points = target.target.from_internal(torch.from_numpy(dataset.coordinates[some]).double())
        log_p = target.evaluate(points, Purpose.STARTUP).log_p
    try:
        check_energies(log_p.numpy(), dataset.reduced_energy[some])
    except InputError as error:
        raise InputError(f"{name} belongs to {of}, the target is {molecule.name}: {error}") from error


def _cost(dataset: "Reference") -> str:
    details = dataset.provenance.get("details")
    evaluations = details.get("evaluations") if isinstance(details, dict) else None
    return "" if evaluations is None else f", which cost {evaluations} evaluations that the ledger does not count"


def _inside(points: Tensor, log_weights: Tensor, flow: Flow, name: str) -> WeightedPoints:
    points = points.to(next(flow.parameters()))
    with torch.no_grad():
        inside = flow.initial_log_prob(points).isfinite()
    count = int(inside.sum())
    if count < FEWEST * len(points):
        raise InputError(
            f"{name}: expected most samples in the range of the flow, got {count} of {len(points)}; flow and samples "
            "belong to different molecules, or the layout of the preset is too narrow"
        )
    if count < len(points):
        _LOG.warning("samples: %d of %d lie outside the range of the flow: left out", len(points) - count, len(points))
    return WeightedPoints(points[inside], log_weights[inside])
