"""Several trained flows of one target as one model."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from boltzport.core.errors import InputError
from boltzport.core.files import RunDirectory
from boltzport.core.seeds import derived
from boltzport.experiments.config import RunConfig
from boltzport.experiments.inputs import check_config
from boltzport.experiments.keeping import read_status
from boltzport.experiments.model import Model
from boltzport.experiments.opening import load, run_path
from boltzport.flows import Flow, MixedFlow, MovedFlow, load_flow
from boltzport.targets import Ledger, Target
from boltzport.training import Status

if TYPE_CHECKING:
    from boltzport.targets.boltzmann import HarmonicMap

SAME = 1e-9
"""Largest difference between two maps of coordinates that count as the same."""


def mix(*models: Model, shares: Sequence[float] | str = "auto", seed: int = 0) -> Model:
    """Several models of one target as one: each point is weighted by the density of the mixture of their flows.

    Args:
        models: The models; the first gives the target and the coordinates.
        shares: Probabilities of the flows: `auto` for those with the most effective samples on a pilot sample, `equal`,
            or numbers that sum to one.
        seed: Seed of the pilot sample.

    Raises:
        InputError: A model belongs to another target, or the shares are not probabilities.

    Example:
        >>> import boltzport
        >>> model = boltzport.load("alanine-dipeptide")
        >>> boltzport.mix(model, model, shares=[0.3, 0.7])
        Model(alanine-dipeptide, mixture flow, cmt)
    """
    if not models:
        raise InputError("expected at least one model to mix, got none")
    first = models[0]
    for number, model in enumerate(models[1:], 2):
        _check(first.config, model.config, f"model {number}")
        if first.config.kind == "density" and model.target.counted.target is not first.target.counted.target:
            raise InputError(f"model {number}: expected the same density {first.config.system}, got another one")
    members = [(model.flow, _map_of(model.target.counted.target)) for model in models]
    others = [(model.ledger, model.status) for model in models[1:]]
    return _mixed(first, members, others, shares=shares, seed=seed)


def load_mixture(
    runs: Sequence[Path | str],
    *,
    shares: Sequence[float] | str = "auto",
    seed: int = 0,
    device: torch.device | None = None,
) -> Model:
    """Load one run, or several runs of one target as a mixture.

    Args:
        runs: Run directories, or names of systems whose trained flow ships with boltzport.
        shares: Probabilities of the flows; see `mix`.
        seed: Seed of the pilot sample that the shares are optimised on.
        device: Device of the flows; the processor by default.

    Raises:
        InputError: There is no such run, or the runs have different targets.
    """
    if not runs:
        raise InputError("expected a run directory, or the name of a system whose flow ships with boltzport")
    if len(runs) == 1:
        return load(runs[0], device=device)
    directories = [RunDirectory(run_path(str(run))) for run in runs]
    places = [folder.path.resolve() for folder in directories]
    for number, run in enumerate(runs):
        if places[number] in places[:number]:
            raise InputError(f"{run}: expected different runs, got this one twice; a mixture with itself is the flow")
    configs = [RunConfig.load(folder.require(folder.config, "boltzport train")) for folder in directories]
    for run, config, folder in zip(runs[1:], configs[1:], directories[1:], strict=True):
        _check(configs[0], config, str(run))
        check_config(folder)
    first = load(runs[0], device=device)
    members = [(first.flow, _map_of(first.target.counted.target))]
    others = []
    for folder in directories[1:]:
        flow = load_flow(folder.require(folder.flow, "boltzport train")).to(device)
        members.append((flow, _saved_map(folder)))
        others.append((_ledger(folder), read_status(folder) or Status(state="running")))
    return _mixed(first, members, others, shares=shares, seed=seed)


def _mixed(
    first: Model,
    members: Sequence[tuple[Flow, "HarmonicMap | None"]],
    others: Sequence[tuple[Ledger, Status]],
    *,
    shares: Sequence[float] | str,
    seed: int,
) -> Model:
    from boltzport.ensembles import with_optimal_shares

    given = None if isinstance(shares, str) else list(shares)
    if isinstance(shares, str) and shares not in ("auto", "equal"):
        raise InputError(f"shares: expected auto, equal or numbers that sum to 1, got {shares}")
    flow = MixedFlow([_in_coordinates(member, map_, *members[0]) for member, map_ in members], given)
    ledger, status = first.ledger, first.status
    for counts, other in others:
        ledger = ledger.plus(counts)
        status = replace(
            status,
            gradient_steps=status.gradient_steps + other.gradient_steps,
            seconds=status.seconds + other.seconds,
        )
    target = first.target.with_ledger(ledger)
    if shares == "auto":
        flow = with_optimal_shares(flow, target.counted, generator=derived(seed, "shares", device=flow.device))
    return Model(flow=flow, target=target, config=first.config, status=status)


def _check(first: RunConfig, other: RunConfig, name: str) -> None:
    """Refuse a run of another target by its name, or by what is different."""
    if (first.system, first.kind) != (other.system, other.kind):
        raise InputError(f"{name} is a run of {other.system}; expected another run of {first.system}")
    for key, value in vars(first.molecule).items():
        if (got := getattr(other.molecule, key)) != value:
            raise InputError(f"{name} is a run of {other.system} with {key} {got}; expected {key} {value}")


def _in_coordinates(flow: Flow, map_: "HarmonicMap | None", first: Flow, shared: "HarmonicMap | None") -> Flow:
    """A flow in the coordinates of the first one."""
    if flow.dimension != first.dimension:
        raise InputError(f"expected flows of {first.dimension} coordinates, got one of {flow.dimension}")
    if _same(map_, shared):
        return flow

    def forward(points: torch.Tensor) -> torch.Tensor:
        internal = points if map_ is None else map_.to_internal(points)
        return internal if shared is None else shared.to_independent(internal)

    def backward(points: torch.Tensor) -> torch.Tensor:
        internal = points if shared is None else shared.to_internal(points)
        return internal if map_ is None else map_.to_independent(internal)

    log_det = (0.0 if map_ is None else map_.log_det) - (0.0 if shared is None else shared.log_det)
    return MovedFlow(flow, first.layout, forward=forward, backward=backward, log_det=log_det)


def _same(one: "HarmonicMap | None", other: "HarmonicMap | None") -> bool:
    if one is None or other is None:
        return one is other
    pairs = [(getattr(one, name), getattr(other, name)) for name in vars(one)]
    return all(a.shape == b.shape and torch.allclose(a.double(), b.double(), rtol=0.0, atol=SAME) for a, b in pairs)


def _ledger(directory: RunDirectory) -> Ledger:
    return Ledger(json.loads(directory.ledger.read_text()) if directory.ledger.is_file() else None)


def _map_of(target: Target) -> "HarmonicMap | None":
    found: HarmonicMap | None = getattr(target, "map", None)
    return found


def _saved_map(directory: RunDirectory) -> "HarmonicMap | None":
    if not directory.coordinates.is_file():
        return None
    from boltzport.targets.boltzmann import HarmonicMap

    return HarmonicMap.load(directory.coordinates)
