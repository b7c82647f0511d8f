"""Energy, entropy, heat capacity and free energy at temperatures around the trained one, where the weights allow it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.analysis.metrics.bootstrap import BLOCKS, Interval, draw_blocks, interval, sample_blocks
from boltzport.analysis.metrics.importance import LARGEST_K, effective_sample_size, log_mean_exp, smooth

FEWEST_EFFECTIVE = 100.0
"""Effective sample size below which nothing is reported."""
FACTORS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5)
"""Temperatures of the metrics, relative to the trained one."""


class ThermodynamicState(NamedTuple):
    """Thermodynamics of the target at one temperature; metrics are None if the weights do not allow them.

    Energies are in kJ/mol for a molecule, with `thermal_energy` kT0 in that unit. They are configurational, without
    kinetic energy.

    Attributes:
        temperature: T, in the unit of the trained T0.
        effective_samples: ESS at T times the number of samples.
        pareto_k: Shape of the tail of the weights at T.
        mean_energy: <U>.
        heat_capacity: (<U^2> - <U>^2) / (kT T), per unit of temperature.
        free_energy: -kT log Z, in the measure of the target.
        entropy: (<U> - F) / T, per unit of temperature, in the same measure.
        intervals: Intervals of the four metrics.
        reason: Reason why there are no metrics; empty if there are.
    """

    temperature: float
    effective_samples: float
    pareto_k: float | None
    mean_energy: float | None
    heat_capacity: float | None
    free_energy: float | None
    entropy: float | None
    intervals: dict[str, Interval | None]
    reason: str


def states(
    log_weights: Float[np.ndarray, " samples"],
    reduced_energy: Float[np.ndarray, " samples"],
    *,
    temperature: float,
    thermal_energy: float,
    generator: np.random.Generator,
    factors: Sequence[float] = FACTORS,
) -> list[ThermodynamicState]:
    """Thermodynamics by reweighting: at temperature T a sample has the log-weight log w - (T0 / T - 1) u.

    The regularisation of the energy has no effect: where it acts, weights are zero at every temperature.

    Args:
        log_weights: Log-weights of independent samples of the model.
        reduced_energy: Reduced energies u = U / kT0 of the samples.
        temperature: Trained temperature T0.
        thermal_energy: kT0 in the unit of the reported energies.
        generator: Random generator of the bootstrap.
        factors: Temperatures T / T0.
    """
    finite = np.isfinite(log_weights)
    if not finite.any():
        return []
    log_w, energy = log_weights[finite], reduced_energy[finite].astype(np.float64)
    block = sample_blocks(0, len(log_weights))[finite]
    draws = draw_blocks(min(BLOCKS, len(log_weights)), generator)
    counts = np.bincount(sample_blocks(0, len(log_weights)), minlength=draws.shape[1])
    return [
        _state(
            log_w - (1 / factor - 1) * energy,
            energy,
            block,
            draws,
            counts,
            temperature=temperature * factor,
            factor=factor,
            thermal_energy=thermal_energy,
        )
        for factor in factors
    ]


def why_not(effective: float, pareto_k: float | None) -> str:
    """Why weights at a temperature do not allow any metrics; empty if they do."""
    if effective < FEWEST_EFFECTIVE:
        return f"{effective:.0f} effective samples at this temperature; expected at least {FEWEST_EFFECTIVE:.0f}"
    if pareto_k is not None and pareto_k > LARGEST_K:
        return f"Pareto k of {pareto_k:.2f} at this temperature; expected at most {LARGEST_K}"
    return ""


def _state(
    log_weights: np.ndarray,
    energy: np.ndarray,
    block: np.ndarray,
    draws: np.ndarray,
    counts: np.ndarray,
    *,
    temperature: float,
    factor: float,
    thermal_energy: float,
) -> ThermodynamicState:
    effective = effective_sample_size(log_weights) * len(log_weights)
    pareto_k = smooth(log_weights).pareto_k
    reason = why_not(effective, pareto_k)
    if reason:
        return ThermodynamicState(temperature, effective, pareto_k, None, None, None, None, {}, reason)
    shift = log_mean_exp(log_weights)
    weights = np.exp(log_weights - shift)
    # Relative to the mean, so that the variance is not a small difference of large numbers.
    centre = float((weights * energy).sum() / weights.sum())
    moments = np.stack(
        [np.bincount(block, weights * (energy - centre) ** power, minlength=draws.shape[1]) for power in range(3)]
    )
    # First row: all blocks once; then the replicates.
    table = np.concatenate([np.ones((1, draws.shape[1])), draws])
    zeroth, first, second = moments @ table.T
    mean = first / zeroth
    # Samples that failed count as zeros in the mean weight.
    log_z = shift + np.log(zeroth / (table @ counts))
    metrics = {
        "mean_energy": thermal_energy * (centre + mean),
        "heat_capacity": thermal_energy * (second / zeroth - mean**2) / (temperature * factor),
        "free_energy": -thermal_energy * factor * log_z,
    }
    metrics["entropy"] = (metrics["mean_energy"] - metrics["free_energy"]) / temperature
    intervals = {name: interval(float(row[0]), row[1:], blocks=draws.shape[1]) for name, row in metrics.items()}
    values = {name: float(row[0]) for name, row in metrics.items()}
    return ThermodynamicState(temperature, effective, pareto_k, **values, intervals=intervals, reason="")
