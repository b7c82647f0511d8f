"""A reference ensemble, evaluated in the same way as a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float

from boltzport.analysis.evaluation.frames import ReferenceFrames
from boltzport.analysis.evaluation.observables import Observables, from_known
from boltzport.analysis.evaluation.tables import Grids, Tables
from boltzport.analysis.metrics import Skipped, Tica, chain_blocks, fit_tica, torsion_features
from boltzport.core.errors import InputError
from boltzport.core.progress import Progress
from boltzport.core.stopwatch import Timing
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose

ENERGY_TOLERANCE = 0.1
"""Maximum median difference in kT between the energies of a reference and the target's."""


@runtime_checkable
class ReferenceSamples(Protocol):
    """Samples of the target, as a `boltzport.Reference` has them; the frames of a chain are in order of time."""

    @property
    def coordinates(self) -> np.ndarray:
        """Coordinates of the frames, (frames, dimensions): internal coordinates, for a molecule."""

    @property
    def reduced_energy(self) -> np.ndarray:
        """Minus the log density of the target in kT, (frames,)."""

    @property
    def weights(self) -> np.ndarray:
        """Weights of the frames, with mean 1, (frames,)."""

    @property
    def chain(self) -> np.ndarray:
        """Number of the chain of each frame, (frames,)."""

    @property
    def provenance(self) -> Mapping[str, object]:
        """Origin of the reference."""


@dataclass(frozen=True, kw_only=True)
class Densities:
    """Log densities at the frames of a reference.

    Attributes:
        log_q: Log density of the model with respect to the target's own measure; minus infinity outside its range.
        log_p: Log density of the target, unnormalised.
    """

    log_q: np.ndarray
    log_p: np.ndarray


def open_reference(reference: ReferenceSamples, *, dimensions: int) -> ReferenceFrames:
    """The arrays of a reference.

    Raises:
        InputError: They belong to another target, or their lengths differ.
    """
    coordinates = np.asarray(reference.coordinates)
    if coordinates.ndim != 2 or coordinates.shape[1] != dimensions:
        raise InputError(
            f"the reference: expected coordinates of shape (frames, {dimensions}), got {coordinates.shape}; "
            "it belongs to another system"
        )
    if len(coordinates) < 2:
        raise InputError(f"the reference: expected at least 2 frames, got {len(coordinates)}")
    arrays = {name: np.asarray(getattr(reference, name)) for name in ("reduced_energy", "weights", "chain")}
    for name, array in arrays.items():
        if array.shape != coordinates.shape[:1]:
            raise InputError(f"the reference: expected {len(coordinates)} values of {name}, got {array.shape}")
    chain = arrays["chain"].astype(np.int64)
    return ReferenceFrames(
        coordinates=coordinates,
        reduced_energy=arrays["reduced_energy"].astype(np.float64),
        weights=arrays["weights"].astype(np.float64),
        chain=chain,
        block=chain_blocks(chain),
    )


def slow_coordinates(observables: Observables, frames: ReferenceFrames) -> Tica | Skipped:
    """Slow coordinates of a reference, or why there are none."""
    if not observables.torsions:
        return Skipped(reason="there are no named torsions to compute slow coordinates from")
    features = torsion_features(frames.coordinates[:, list(observables.torsions)])
    return fit_tica(features, frames.chain, frames.weights)


def tabulate(observables: Observables, grids: Grids, frames: ReferenceFrames, *, batch: int) -> Tables:
    """Histograms of a reference."""
    tables = Tables(observables, grids, blocks=frames.blocks)
    for start in range(0, len(frames.weights), batch):
        part = slice(start, start + batch)
        tables.add(frames.coordinates[part], frames.reduced_energy[part], frames.block[part], frames.weights[part])
    return tables


def densities(
    flow: Flow, target: CountedTarget, frames: ReferenceFrames, *, batch: int, timing: Timing, progress: Progress
) -> Densities:
    """Densities of model and target at the frames of a reference.

    Raises:
        InputError: The energies stored with the reference are not those of the target.
    """
    parameter = next(flow.parameters())
    log_q, log_p = np.empty(len(frames.weights)), np.empty(len(frames.weights))
    for start in range(0, len(log_q), batch):
        part = slice(start, start + batch)
        known = torch.from_numpy(np.ascontiguousarray(frames.coordinates[part]))
        points = from_known(target.target, known.double()).to(parameter)
        with timing.stage("densities of the reference"), torch.no_grad():
            found = target.evaluate(points, Purpose.EVALUATION)
            log_q[part] = (flow.log_prob(points).double() - found.log_volume).cpu().numpy()
            log_p[part] = found.log_p.cpu().numpy()
        progress("reference", min(start + batch, len(log_q)), len(log_q))
    check_energies(log_p, frames.reduced_energy)
    return Densities(log_q=log_q, log_p=log_p)


def check_energies(log_p: Float[np.ndarray, " frames"], reduced_energy: Float[np.ndarray, " frames"]) -> None:
    """Check that a reference belongs to the target.

    Args:
        log_p: Log density of the target at the frames.
        reduced_energy: Reduced energies stored with the frames, in kT.

    Raises:
        InputError: The energies differ.
    """
    difference = float(np.median(np.abs(log_p + reduced_energy)))
    if not difference < ENERGY_TOLERANCE:
        raise InputError(
            f"the reference: its reduced energies differ from the target's by {difference:.2g} kT (median), expected "
            f"less than {ENERGY_TOLERANCE}; make it with the same force field, constraints and temperature"
        )
