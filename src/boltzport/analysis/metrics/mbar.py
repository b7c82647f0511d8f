"""Thermodynamics from samples at several temperatures, combined by MBAR (Shirts and Chodera 2008).

MBAR gives the log ratios of the constants of the temperatures, from samples of all of them. Then all samples together
are a sample of a known mixture, which is reweighted to any temperature between them. The constants themselves, which
MBAR leaves open by a common factor, are those of the flows, combined with weights of one over their variance.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from boltzport.analysis.metrics.bootstrap import BLOCKS, draw_blocks, interval, sample_blocks
from boltzport.analysis.metrics.importance import effective_sample_size, log_mean_exp, smooth
from boltzport.analysis.metrics.thermodynamics import ThermodynamicState, why_not
from boltzport.core.errors import InputError

MOST = 5000
"""Largest number of frames that a temperature contributes."""
REPLICATES = 40
"""Number of bootstrap replicates, each of which solves the equations of MBAR again."""
Solver = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Log Z of each temperature, up to a constant, from reduced energies (temperatures, frames) and numbers of frames."""
BOUNDED = 0.7
"""If the largest weights are within a factor of two (0.7 in the logarithm), there is no heavy tail to be fitted."""
KEYS = ("mean_energy", "heat_capacity", "free_energy", "entropy")


class Sampled(NamedTuple):
    """Independent samples of a flow at one temperature, with their weights.

    Attributes:
        log_weights: Log-weights with respect to the Boltzmann density at this temperature.
        reduced_energy: U / kT at this temperature.
        temperature: T in K.
        thermal_energy: kT in kJ/mol.
    """

    log_weights: Float[np.ndarray, " samples"]
    reduced_energy: Float[np.ndarray, " samples"]
    temperature: float
    thermal_energy: float


class _Mixture(NamedTuple):
    """Energies of all frames, and the log of the density that they are a sample of, up to the measure of the target."""

    energy: Float[np.ndarray, " frames"]
    log_mixture: Float[np.ndarray, " frames"]


def combined_states(
    sampled: Sequence[Sampled], temperatures: Sequence[float], *, generator: np.random.Generator
) -> list[ThermodynamicState]:
    """Thermodynamics at some temperatures, from samples at several; the errors are those of a bootstrap of all.

    Args:
        sampled: Samples at two or more temperatures.
        temperatures: Temperatures of the results in K.
        generator: Random generator of the frames and the bootstrap.

    Raises:
        InputError: pymbar is not installed.
    """
    solver = _solver()
    boltzmann = sampled[0].thermal_energy / sampled[0].temperature
    errors = np.array([_log_z_error(one.log_weights) for one in sampled])
    mixture = _mixed([_once(one) for one in sampled], sampled, errors, solver, generator)
    draws = [draw_blocks(BLOCKS, generator, replicates=REPLICATES) for _ in sampled]
    replicates = [
        _mixed(
            [_once(one, counts[number]) for one, counts in zip(sampled, draws, strict=True)],
            sampled,
            errors,
            solver,
            generator,
        )
        for number in range(REPLICATES)
    ]
    return [_state(mixture, replicates, temperature, boltzmann) for temperature in temperatures]


def _solver() -> Solver:
    # At its import it recommends JAX, which problems of this size do not need.
    logging.getLogger("pymbar").setLevel(logging.ERROR)
    try:
        import pymbar
    except ImportError as error:
        message = "several temperatures are combined by pymbar: pip install 'boltzport[thermodynamics]'"
        raise InputError(message) from error

    def solve(reduced: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        # Its own iteration; the default one passes options that scipy does not know.
        found = pymbar.MBAR(reduced, sizes, solver_protocol=({"method": "adaptive"},))
        return -np.asarray(found.f_k, dtype=np.float64)

    return solve


def _log_z_error(log_weights: np.ndarray) -> float:
    effective = effective_sample_size(log_weights) * len(log_weights)
    # A floor, so that equal weights do not decide alone.
    return max(math.sqrt(max(1 / effective - 1 / len(log_weights), 0.0)), 1e-6)


def _once(one: Sampled, counts: np.ndarray | None = None) -> np.ndarray:
    """Log-weights of the samples, with the number of times that a replicate draws their blocks."""
    log_weights = np.where(np.isfinite(one.log_weights), one.log_weights, -np.inf)
    if counts is None:
        return log_weights
    with np.errstate(divide="ignore"):
        return np.asarray(log_weights + np.log(counts[sample_blocks(0, len(log_weights))]))


def _mixed(
    log_weights: Sequence[np.ndarray],
    sampled: Sequence[Sampled],
    errors: np.ndarray,
    solver: Solver,
    generator: np.random.Generator,
) -> _Mixture:
    energies = []
    for log_w, one in zip(log_weights, sampled, strict=True):
        # As many frames as the weights are worth, so that a frame counts as one independent sample.
        frames = max(1, min(MOST, int(effective_sample_size(log_w) * len(log_w))))
        cumulated = np.cumsum(np.exp(log_w - log_w.max()))
        places = (np.arange(frames) + generator.random()) / frames * cumulated[-1]
        chosen = np.minimum(np.searchsorted(cumulated, places, side="right"), len(log_w) - 1)
        energies.append(one.reduced_energy[chosen].astype(np.float64) * one.thermal_energy)
    sizes = np.array([len(part) for part in energies])
    energy = np.concatenate(energies)
    reduced = energy / np.array([one.thermal_energy for one in sampled])[:, None]
    found = solver(reduced, sizes)
    own = np.array([log_mean_exp(log_w) for log_w in log_weights])
    precision = errors**-2.0
    log_z = found + ((own - found) * precision).sum() / precision.sum()
    return _Mixture(energy, logsumexp(np.log(sizes)[:, None] - log_z[:, None] - reduced, axis=0))


def _state(
    mixture: _Mixture, replicates: Sequence[_Mixture], temperature: float, boltzmann: float
) -> ThermodynamicState:
    log_weights = -mixture.energy / (boltzmann * temperature) - mixture.log_mixture
    effective = effective_sample_size(log_weights) * len(log_weights)
    pareto_k = _shape(log_weights)
    reason = why_not(effective, pareto_k)
    if reason:
        return ThermodynamicState(temperature, effective, pareto_k, None, None, None, None, {}, reason)
    values = _values(mixture, temperature, boltzmann)
    others = np.array([_values(replicate, temperature, boltzmann) for replicate in replicates])
    intervals = {
        name: interval(float(values[place]), others[:, place], blocks=BLOCKS) for place, name in enumerate(KEYS)
    }
    known = dict(zip(KEYS, map(float, values), strict=True))
    return ThermodynamicState(temperature, effective, pareto_k, **known, intervals=intervals, reason="")


def _shape(log_weights: np.ndarray) -> float | None:
    """Pareto shape of the tail of the weights; None if there is no tail."""
    # Frames that resampling has repeated would look like a heavy tail.
    found = np.unique(log_weights)
    tail = found[-int(3 * np.sqrt(len(found))) :]
    return None if np.ptp(tail) < BOUNDED else smooth(found).pareto_k


def _values(mixture: _Mixture, temperature: float, boltzmann: float) -> np.ndarray:
    """Values of `KEYS`."""
    thermal = boltzmann * temperature
    log_weights = -mixture.energy / thermal - mixture.log_mixture
    log_z = float(logsumexp(log_weights))
    weights = np.exp(log_weights - log_z)
    mean = float((weights * mixture.energy).sum())
    variance = float((weights * (mixture.energy - mean) ** 2).sum())
    free = -thermal * log_z
    return np.array([mean, variance / (thermal * temperature), free, (mean - free) / temperature])
