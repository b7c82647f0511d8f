"""The result of an evaluation, and the JSON that scripts and reports read."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from boltzport.evaluate.comparison import Comparison, Figure
from boltzport.evaluate.halves import Halves
from boltzport.evaluate.populations import ABOVE
from boltzport.metrics import (
    LARGEST_K,
    Agreement,
    Basin,
    Bounds,
    Importance,
    Interval,
    Mean,
    MissingMass,
    Skipped,
    State,
    Tica,
    agreement,
)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a training cost; none where it is not known.

    Attributes:
        target_evaluations: Of the training, without those of evaluations.
        gradient_steps: Of the flow.
        wall_seconds: Of the training.
    """

    target_evaluations: int | None = None
    gradient_steps: int | None = None
    wall_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class AgainstReference:
    """What a reference says of a model.

    Attributes:
        bounds: NLL and EUBO.
        plain: Distances of the samples as they are.
        reweighted: Distances of the samples by clipped weights; none where all weights are zero.
        floor: Distances between two independent references: what noise alone makes of each figure.
        floor_samples: How many frames the second of them had.
        tica: The slow coordinates, or why there are none.
        transport_samples: How many samples the Wasserstein distances are of.
        provenance: Where the reference comes from, and whether it is converged.
    """

    bounds: Bounds
    plain: Comparison
    reweighted: Comparison | None
    floor: Comparison | None
    floor_samples: int
    tica: Tica | Skipped
    transport_samples: int
    provenance: Mapping[str, object]

    @property
    def converged(self) -> bool | None:
        """Whether the reference's own diagnostics call it converged; none where they say nothing."""
        diagnostics = self.provenance.get("diagnostics")
        verdict = diagnostics.get("converged") if isinstance(diagnostics, Mapping) else None
        return verdict if isinstance(verdict, bool) else None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """An evaluation of a model.

    Attributes:
        cost: What the training cost.
        samples: How many samples were drawn.
        coordinates: What each coordinate is called.
        importance: Figures of the importance weights.
        halves: Effective fractions of the two halves of a flow that has them.
        mean_reduced_energy: Mean of u over the target, by clipped weights.
        basins: The most populated basins, the most populated first.
        representatives: Which basins have a representative in the arrays, by their place there.
        states: Thermodynamics at other temperatures.
        missing: Missing mass.
        against: What a reference says.
        seconds: Time by stage.
        arrays: For figures; `evaluate/arrays.py` has their names.
    """

    cost: Cost
    samples: int
    coordinates: tuple[str, ...]
    importance: Importance
    halves: Halves | None
    mean_reduced_energy: Mean
    basins: tuple[Basin, ...]
    representatives: tuple[str, ...]
    states: tuple[State, ...]
    missing: MissingMass
    against: AgainstReference | None
    seconds: dict[str, float]
    arrays: dict[str, np.ndarray]

    @property
    def agreement(self) -> Agreement | None:
        """How populations of basins agree with the reference's."""
        return agreement(self.basins, above=ABOVE)

    def to_json(self) -> dict[str, object]:
        """One JSON object; what is not a finite number is null.

        Figures stand alone; `intervals` has those of 95 % and `noise_floor` has what noise alone makes of a figure,
        both by names such as `ess`, `ramachandran.ALA2.kl_reweighted` or `wasserstein.energy`.
        """
        importance = self.importance
        found: dict[str, object] = {
            "target_evaluations": self.cost.target_evaluations,
            "gradient_steps": self.cost.gradient_steps,
            "wall_seconds": self.cost.wall_seconds,
            "samples": self.samples,
            "failed": importance.failed,
            "ess": importance.ess,
            "ess_unclipped": importance.ess_unclipped,
            "ess_torsions": self.halves.ess.torsions if self.halves is not None else None,
            "ess_stiff": self.halves.ess.stiff if self.halves is not None else None,
            "pareto_k": importance.pareto_k,
            "log_z": importance.log_z,
            "log_z_error": importance.log_z_error,
            "log_z_smoothed": importance.log_z_smoothed,
            "elbo": importance.elbo,
            "mean_reduced_energy": self.mean_reduced_energy.value,
            "coordinates": self.coordinates,
            "basins": [self._basin(basin) for basin in self.basins],
            "basin_agreement": None if self.agreement is None else self.agreement._asdict(),
            "temperatures": [_state(state) for state in self.states],
            "missing_mass": {
                **self.missing._asdict(),
                "estimates": [estimate._asdict() for estimate in self.missing.estimates],
            },
        }
        if self.against is not None:
            found |= _against(self.against)
        found["warnings"] = self.warnings()
        found["intervals"] = {name: bracket for name, bracket in self.intervals().items() if bracket is not None}
        found["noise_floor"] = self.noise_floor()
        found["seconds"] = self.seconds
        clean = _clean(found)
        assert isinstance(clean, dict)
        return clean

    def intervals(self) -> dict[str, Interval | None]:
        """Intervals by the names of figures."""
        found = dict(self.importance.intervals)
        if self.halves is not None:
            found |= self.halves.intervals
        found["mean_reduced_energy"] = self.mean_reduced_energy.interval
        for basin in self.basins:
            found[f"basins.{basin.name}.population"] = basin.population_interval
            found[f"basins.{basin.name}.free_energy"] = basin.free_energy_interval
        for state in self.states:
            found |= {f"temperatures.{state.temperature:g}.{name}": value for name, value in state.intervals.items()}
        if self.against is not None:
            found |= self.against.bounds.intervals
            found |= {name: figure.interval for name, figure in self.against.plain.flat()}
            if self.against.reweighted is not None:
                found |= {f"{name}_reweighted": figure.interval for name, figure in self.against.reweighted.flat()}
        return found

    def warnings(self) -> list[str]:
        """What a reader of the figures must know, in words."""
        found = []
        pareto_k = self.importance.pareto_k
        if pareto_k is not None and pareto_k > LARGEST_K:
            found.append(
                f"Pareto k of {pareto_k:.2f}: above {LARGEST_K} a few samples carry the weight, and neither log Z nor "
                "any reweighted figure, nor their intervals, can be trusted"
            )
        if self.importance.failed:
            found.append(f"{self.importance.failed} of {self.samples} evaluations failed and have no weight")
        if self.against is not None and self.against.bounds.outside > 0:
            share = 100 * self.against.bounds.outside
            found.append(f"{share:.2g} % of the reference is outside the range of the flow, and not in NLL and EUBO")
        return found

    def noise_floor(self) -> dict[str, float]:
        """What noise alone makes of each figure, by its name."""
        if self.against is None or self.against.floor is None:
            return {}
        figures = {name: figure.value for name, figure in self.against.floor.flat()}
        reweighted = {f"{name}_reweighted": value for name, value in figures.items()}
        return figures | reweighted

    def _basin(self, basin: Basin) -> dict[str, object]:
        at = self.representatives.index(basin.name) if basin.name in self.representatives else None
        return {**basin._asdict(), "representative": at}


def _against(against: AgainstReference) -> dict[str, object]:
    plain, reweighted = against.plain, against.reweighted or Comparison()
    slow: dict[str, object] = {"kl": None, "kl_reweighted": None, "reason": ""}
    if isinstance(against.tica, Skipped):
        slow["reason"] = against.tica.reason
    else:
        slow |= {"lag": against.tica.lag, "correlations": against.tica.correlations.tolist()}
        slow |= _side_by_side(plain.tica, reweighted.tica)
    found: dict[str, object] = {
        "nll": against.bounds.nll,
        "eubo": against.bounds.eubo,
        "outside": against.bounds.outside,
        "reference": dict(against.provenance),
        "noise_floor_samples": against.floor_samples,
        "ramachandran": [
            {"name": name, **_side_by_side(figures, reweighted.ramachandran.get(name, {}))}
            for name, figures in plain.ramachandran.items()
        ],
        "phi_profile": [
            {
                "name": name,
                **_side_by_side(figures, reweighted.profiles.get(name, {})),
                "unvisited": plain.unvisited[name],
            }
            for name, figures in plain.profiles.items()
        ],
        "wasserstein": {
            **_side_by_side(plain.wasserstein, reweighted.wasserstein),
            "samples": against.transport_samples,
        },
        "tica": slow,
    }
    if plain.density_2d:
        found["density_2d"] = _side_by_side(plain.density_2d, reweighted.density_2d)
    return found


def _side_by_side(plain: dict[str, Figure], reweighted: dict[str, Figure]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for name, figure in plain.items():
        found[name] = figure.value
        found[f"{name}_reweighted"] = reweighted[name].value if name in reweighted else None
    return found


def _state(state: State) -> dict[str, object]:
    return {name: value for name, value in state._asdict().items() if name != "intervals"}


def _clean(value: object) -> object:
    """Plain numbers, lists and dictionaries, with null for what is not finite."""
    if isinstance(value, Mapping):
        return {name: _clean(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part) for part in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
