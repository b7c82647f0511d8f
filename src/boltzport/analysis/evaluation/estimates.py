"""The results of an evaluation as metrics: one row here for each metric."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from boltzport.analysis.evaluation.distances import Distances
from boltzport.analysis.evaluation.halves import Halves
from boltzport.analysis.metrics import (
    ABOVE,
    DEFENCE,
    LARGEST_K,
    Basin,
    Bounds,
    Estimate,
    Importance,
    Interval,
    Mean,
    MissingMass,
    Skipped,
    ThermodynamicState,
    Tica,
    agreement,
    estimate,
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a training; None for unknown values.

    Attributes:
        target_evaluations: Number of target evaluations until the end of the training.
        gradient_steps: Number of gradient steps of the flow.
        wall_seconds: Wall time of the training in seconds.
    """

    target_evaluations: int | None = None
    gradient_steps: int | None = None
    wall_seconds: float | int | None = None


@dataclass(frozen=True, kw_only=True)
class AgainstReference:
    """Comparison of a model with a reference.

    Attributes:
        bounds: NLL and EUBO.
        plain: Distances of the unweighted samples.
        reweighted: Distances of the samples reweighted with clipped weights; None if all weights are zero.
        floor: Distances between two independent references: the noise floor of each metric.
        floor_samples: Number of frames of the second reference.
        tica: The slow coordinates, or why there are none.
        transport_samples: Number of samples of the Wasserstein distances.
        provenance: Origin of the reference, and whether it is converged.
    """

    bounds: Bounds
    plain: Distances
    reweighted: Distances | None
    floor: Distances | None
    floor_samples: int
    tica: Tica | Skipped
    transport_samples: int
    provenance: Mapping[str, object]


def of_cost(cost: Cost) -> Iterator[Estimate]:
    """Cost of the training."""
    yield estimate("target_evaluations", cost.target_evaluations)
    yield estimate("gradient_steps", cost.gradient_steps)
    yield estimate("wall_seconds", cost.wall_seconds)


def of_weights(
    found: Importance, halves: Halves | None, energy: Mean, *, samples: int, exact: float | None = None
) -> Iterator[Estimate]:
    """Metrics of the importance weights.

    Args:
        found: Metrics of the weights.
        halves: Effective sample sizes of the two halves, for a flow that has them.
        energy: Mean reduced energy of the target.
        samples: Number of samples.
        exact: Exact log Z, if it is known.
    """
    intervals: dict[str, Interval | None] = {**found.intervals, **(halves.intervals if halves is not None else {})}
    values: dict[str, float | int | None] = {
        "samples": samples,
        "failed": found.failed,
        "ess": found.ess,
        "ess_unclipped": found.ess_unclipped,
        "ess_torsions": None if halves is None else halves.ess.torsions,
        "ess_stiff": None if halves is None else halves.ess.stiff,
        "pareto_k": found.pareto_k,
        "largest_weight": found.largest_weight,
        "log_z": found.log_z,
        "log_z_error": found.log_z_error,
        "log_z_smoothed": found.log_z_smoothed,
        **({} if exact is None else {"log_z_exact": exact}),
        "elbo": found.elbo,
    }
    for name, value in values.items():
        yield estimate(name, value, intervals.get(name))
    yield estimate("mean_reduced_energy", energy.value, energy.interval)


def of_basins(basins: Iterable[Basin]) -> Iterator[Estimate]:
    """Populations and free energies of basins."""
    for basin in basins:
        yield estimate(f"basins.{basin.name}.population", basin.population, basin.population_interval)
        yield estimate(f"basins.{basin.name}.free_energy", basin.free_energy, basin.free_energy_interval)


def of_temperatures(states: Iterable[ThermodynamicState]) -> Iterator[Estimate]:
    """Thermodynamics at other temperatures."""
    for state in states:
        of = f"temperatures.{state.temperature:g}"
        yield estimate(f"{of}.effective_samples", state.effective_samples)
        for key in ("mean_energy", "heat_capacity", "free_energy"):
            yield estimate(f"{of}.{key}", getattr(state, key), state.intervals.get(key))


def of_reference(against: AgainstReference) -> Iterator[Estimate]:
    """Metrics of a model with respect to a reference."""
    bounds = against.bounds
    yield estimate("nll", bounds.nll, bounds.intervals["nll"])
    yield estimate("eubo", bounds.eubo, bounds.intervals["eubo"])
    yield estimate("outside", bounds.outside)
    yield estimate("noise_floor_samples", against.floor_samples)
    floors = {} if against.floor is None else {name: found.value for name, found in against.floor.flat()}
    reweighted = {} if against.reweighted is None else dict(against.reweighted.flat())
    for name, found in against.plain.flat():
        floor = floors.get(name)
        yield estimate(name, found.value, found.interval, floor=floor)
        weighted = reweighted.get(name)
        yield (
            estimate(f"{name}_reweighted", None, floor=floor)
            if weighted is None
            else estimate(f"{name}_reweighted", weighted.value, weighted.interval, floor=floor)
        )
    for residue, count in against.plain.unvisited.items():
        yield estimate(f"{against.plain.profile}.{residue}.unvisited", count)
    yield estimate("wasserstein.samples", against.transport_samples)
    if isinstance(against.tica, Skipped):
        yield estimate("tica.kl", None)
        yield estimate("tica.kl_reweighted", None)
    else:
        yield estimate("tica.lag", against.tica.lag)


def details(
    *,
    coordinates: tuple[str, ...],
    basins: tuple[Basin, ...],
    representatives: tuple[str, ...],
    states: Iterable[ThermodynamicState],
    missing: MissingMass,
    against: AgainstReference | None,
    seconds: Mapping[str, float],
) -> dict[str, object]:
    """Results that are not metrics, as plain values by name.

    Args:
        coordinates: Names of the coordinates.
        basins: Basins, the most populated first.
        representatives: Names of the basins with a representative in the arrays, in the order there.
        states: Thermodynamics at other temperatures.
        missing: Missing mass.
        against: Comparison with a reference.
        seconds: Time in seconds, by stage.
    """
    agreed = agreement(basins, above=ABOVE)
    found: dict[str, object] = {
        "coordinates": list(coordinates),
        "basins": [
            {
                **basin._asdict(),
                "representative": representatives.index(basin.name) if basin.name in representatives else None,
            }
            for basin in basins
        ],
        "basin_agreement": None if agreed is None else agreed._asdict(),
        "temperatures": [
            {name: value for name, value in state._asdict().items() if name != "intervals"} for state in states
        ],
        "missing_mass": {**missing._asdict(), "estimates": [entry._asdict() for entry in missing.estimates]},
    }
    if against is not None:
        found["reference"] = dict(against.provenance)
        tica = against.tica
        found["tica"] = {"reason": tica.reason if isinstance(tica, Skipped) else ""} | (
            {} if isinstance(tica, Skipped) else {"correlations": tica.correlations.tolist()}
        )
    return found | {"seconds": dict(seconds)}


def warnings(found: Importance, against: AgainstReference | None, *, samples: int) -> list[str]:
    """Warnings for the reader of the metrics."""
    said = []
    if found.pareto_k is not None and found.pareto_k > LARGEST_K:
        said.append(
            f"Pareto k of {found.pareto_k:.2f}: above {LARGEST_K} a few samples carry the weight, and log Z, the "
            "reweighted metrics and their intervals cannot be trusted; `boltzport sample` therefore draws "
            f"{DEFENCE:.0%} of its samples from a broader version of the flow (--defensive)"
        )
    if found.failed:
        said.append(f"{found.failed} of {samples} evaluations failed; these samples have weight zero")
    if against is not None and against.bounds.outside > 0:
        share = 100 * against.bounds.outside
        said.append(f"{share:.2g} % of the reference is outside the range of the flow and not included in NLL and EUBO")
    return said
