"""Evaluate a flow on its target: draw and reweight samples, and compare them with a reference."""

from collections.abc import Sequence

import numpy as np
import torch

from boltzport.analysis.evaluation.against import against_reference
from boltzport.analysis.evaluation.annealed import annealed_log_z
from boltzport.analysis.evaluation.arrays import figure_arrays
from boltzport.analysis.evaluation.estimates import (
    Cost,
    details,
    of_basins,
    of_cost,
    of_reference,
    of_temperatures,
    of_weights,
    warnings,
)
from boltzport.analysis.evaluation.halves import evaluate_halves
from boltzport.analysis.evaluation.model import collect, draw_batches
from boltzport.analysis.evaluation.observables import observables, with_pairs
from boltzport.analysis.evaluation.populations import populations
from boltzport.analysis.evaluation.reference import ReferenceSamples, densities, open_reference, slow_coordinates
from boltzport.analysis.evaluation.tables import make_grids
from boltzport.analysis.metrics import (
    LogZ,
    Origin,
    Results,
    Side,
    Skipped,
    Tica,
    clip_largest,
    difference,
    importance,
    missing_mass,
    plain,
    states,
    weighted_mean,
)
from boltzport.core.errors import InputError
from boltzport.core.progress import Progress, silent
from boltzport.core.stopwatch import Timing
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Toy

FEWEST_SAMPLES = 100


def evaluate(
    flow: Flow,
    target: CountedTarget,
    *,
    n: int,
    generator: torch.Generator,
    reference: ReferenceSamples | None = None,
    floor: ReferenceSamples | None = None,
    batch: int = 50_000,
    transport_samples: int = 10_000,
    cost: Cost | None = None,
    path_log_z: LogZ | None = None,
    other_log_z: Sequence[LogZ] = (),
    origin: Origin | None = None,
    progress: Progress = silent,
) -> Results:
    """Evaluate a flow on its target.

    Memory grows by only 12 bytes per sample, plus what numpy needs to sort them; optimal transport between 1e4 samples
    takes 4 GB and half a minute for each distance.

    Args:
        flow: The model, on the layout of the target.
        target: The target; its ledger counts the evaluations.
        n: Number of samples; the paper uses 1e7.
        generator: Random generator of the samples, on the device of the flow; it also seeds the bootstrap.
        reference: Samples of the target to compare with.
        floor: A second, independent reference for the noise floor of each metric; without it, chains of the first
            are compared with each other.
        batch: Batch size.
        transport_samples: Number of samples for the Wasserstein distances.
        cost: Cost of the training, to be included in the results.
        path_log_z: log Z by the sum along the annealing path.
        other_log_z: Other estimates of log Z: other seeds, annealed chains.
        origin: Former description of a retargeted model, to compare log Z with.
        progress: Progress callback.

    Raises:
        InputError: Flow, target and reference do not belong together, or there are too few samples.
    """
    if flow.layout != target.layout:
        raise InputError(f"expected a flow on the layout of {target.target.name}, got one on another layout")
    if n < FEWEST_SAMPLES:
        raise InputError(f"expected at least {FEWEST_SAMPLES} samples, got {n}")
    if transport_samples < 1:
        raise InputError(f"transport_samples: expected at least 1, got {transport_samples}")
    timing = Timing()
    rng = np.random.default_rng(int(torch.randint(2**62, (), generator=generator, device=generator.device)))
    seen = observables(target.target)
    frames = None if reference is None else open_reference(reference, dimensions=len(target.layout))
    with timing.stage("slow coordinates"):
        slow = Skipped(reason="there is no reference") if frames is None else slow_coordinates(seen, frames)
    batches = draw_batches(flow, target, n=n, batch=batch, generator=generator, timing=timing)
    first = next(batches)
    if frames is not None:
        seen = with_pairs(seen, frames.coordinates, frames.weights)
    else:
        finite = clip_largest(np.where(np.isfinite(first.log_weights), first.log_weights, -np.inf))
        seen = with_pairs(seen, first.coordinates, np.exp(finite - max(finite.max(), -1e300)))
    grids = make_grids(seen, first, frames=frames, tica=slow if isinstance(slow, Tica) else None)
    model = collect(
        batches,
        first,
        observables=seen,
        grids=grids,
        n=n,
        cloud=min(transport_samples, n),
        generator=rng,
        timing=timing,
        progress=progress,
    )
    against = None
    if reference is not None and frames is not None:
        against = against_reference(
            model,
            frames,
            densities(flow, target, frames, batch=batch, timing=timing, progress=progress),
            floor=None if floor is None else open_reference(floor, dimensions=len(target.layout)).thinned(n),
            tica=slow,
            provenance=reference.provenance,
            transport_samples=min(transport_samples, n),
            batch=batch,
            generator=rng,
            timing=timing,
            progress=progress,
        )
    exact = target.target.log_z if isinstance(target.target, Toy) else None
    others = [*([path_log_z] if path_log_z is not None else []), *other_log_z]
    if frames is not None:
        with timing.stage("annealed chains"):
            annealed = annealed_log_z(flow, target, frames, generator=generator)
        others += [annealed] if annealed is not None else []
    if exact is not None:
        others.append(LogZ("the toy, which is known exactly", exact, 0.0))
    tables = None if against is None else against.tables
    with timing.stage("weights"):
        weighed = importance(model.log_weights, rng)
        energy = weighted_mean(model.log_weights, model.reduced_energy, rng)
    with timing.stage("temperatures"):
        thermodynamics = states(
            model.log_weights,
            model.reduced_energy,
            temperature=seen.temperature,
            thermal_energy=seen.thermal_energy,
            generator=rng,
        )
    found = populations(target.target, model, tables, rng)
    arrays = figure_arrays(model, tables, rng)
    if found.positions is not None:
        arrays["representative_positions"] = found.positions
    with timing.stage("halves"):
        apart = evaluate_halves(flow, target, n=n, batch=batch, generator=generator, rng=rng)
    missing = missing_mass(
        LogZ("importance sampling", weighed.log_z, weighed.log_z_error),
        others,
        covering=None if against is None else against.covering,
        pareto_k=weighed.pareto_k,
    )
    side = Side(weighed.log_z, weighed.log_z_error, seen.thermal_energy)
    compared = None if against is None else against.found
    estimates = [
        *of_cost(cost or Cost()),
        *of_weights(weighed, apart, energy, samples=n, exact=exact),
        *([] if origin is None else difference(origin.side, side)),
        *([] if compared is None else of_reference(compared)),
        *of_basins(found.basins),
        *of_temperatures(thermodynamics),
    ]
    record = details(
        coordinates=seen.names,
        basins=found.basins,
        representatives=found.representatives,
        states=thermodynamics,
        missing=missing,
        against=compared,
        seconds=timing.seconds,
    )
    if origin is not None:
        record["origin"] = origin.to_json()
    said = warnings(weighed, compared, samples=n)
    return Results(estimates, details=plain(record | {"warnings": said}), arrays=arrays)
