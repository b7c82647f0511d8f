"""Missing mass: how much of the target's probability a model does not cover.

An importance estimate of log Z counts only what the model visits: if a model covers a fraction f of the target, the
estimate is too low by -log f, although the weights look good. Other estimates that count the rest reveal this: a
reference, by bridge sampling between its samples and the model's; other seeds; the sum along the annealing path;
annealed chains.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.stats
from jaxtyping import Float, Int

from boltzport.analysis.metrics.importance import LARGEST_K

CONFIDENCE = 0.99
"""Confidence of the claim that mass is missing."""
SMALLEST = 0.01
"""Smallest missing fraction that is reported; smaller ones cannot be told from the biases of the estimates."""
LIGHT_K, SMALLEST_LIGHT = 0.5, 0.001
"""Below this Pareto k the model's log Z has a normal error, and smaller fractions are reported."""


class LogZ(NamedTuple):
    """An estimate of log Z; one without an error is only shown, not used for conclusions."""

    name: str
    value: float
    error: float | None


class MissingMass(NamedTuple):
    """Result of the search for missing mass.

    Attributes:
        at_least: Lower bound of the missing fraction at the given confidence; zero if no missing mass is found.
        confidence: Confidence over all comparisons together.
        source: Name of the estimate that shows it; empty if none does.
        message: Result in words.
        estimates: All estimates of log Z, the model's own first.
        uncovered: Fraction of the reference where the model's density is too low to be sampled, if known.
    """

    at_least: float
    confidence: float
    source: str
    message: str
    estimates: tuple[LogZ, ...]
    uncovered: float | None


class Covering(NamedTuple):
    """Coverage of a reference by a model.

    Attributes:
        log_z: Bridge estimate of log Z.
        uncovered: Fraction of the reference where the ratio of target to model exceeds the number of model samples, so
            that less than one model sample is expected there.
        uncovered_error: Standard error of `uncovered`.
    """

    log_z: LogZ
    uncovered: float
    uncovered_error: float


def cover(
    model_log_weights: Float[np.ndarray, " samples"],
    reference_log_weights: Float[np.ndarray, " frames"],
    *,
    reference_weights: Float[np.ndarray, " frames"],
    reference_block: Int[np.ndarray, " frames"],
    drawn: int,
) -> Covering:
    """Bridge sampling (Bennett 1976, Meng and Wong 1996) between samples of a model and of the target.

    With r = p / (q Z), log Z solves mean_q[r / (s_q + s_p r)] = mean_p[1 / (s_q + s_p r)]. Frames where q is zero add
    nothing to the right-hand side; this is how the estimate accounts for modes that the model lacks.

    Args:
        model_log_weights: log p - log q at samples of the model; minus infinity where p failed.
        reference_log_weights: log p - log q at samples of the target; infinite where q is zero.
        reference_weights: Weights of the samples of the target.
        reference_block: Block of each sample of the target, by chain.
        drawn: Number of samples drawn from the model, of which the first argument may be a subset.
    """
    shares = reference_weights / reference_weights.sum()
    effective = 1 / float((shares**2).sum())
    share_q = len(model_log_weights) / (len(model_log_weights) + effective)
    log_q, log_p = math.log(share_q), math.log1p(-share_q)

    def model_part(log_z: float) -> np.ndarray:
        ratio = model_log_weights - log_z
        return np.exp(ratio - np.logaddexp(log_q, log_p + ratio))

    def reference_part(log_z: float) -> np.ndarray:
        return np.exp(-np.logaddexp(log_q, log_p + reference_log_weights - log_z))

    def excess(log_z: float) -> float:
        return float(model_part(log_z).mean() - (shares * reference_part(log_z)).sum())

    finite = np.concatenate([values[np.isfinite(values)] for values in (model_log_weights, reference_log_weights)])
    lower, upper = float(finite.min()) - 50.0, float(finite.max()) + 50.0
    if not np.isfinite(reference_log_weights).any() or excess(lower) * excess(upper) >= 0:
        return Covering(LogZ("reference", math.nan, None), 1.0, 0.0)
    log_z = float(scipy.optimize.brentq(excess, lower, upper, xtol=1e-9))
    own, other = model_part(log_z), reference_part(log_z)
    # At the solution the bridge is optimal, and the error is that of the ratio of the two means.
    own_variance = float(own.var()) / len(own) / float(own.mean()) ** 2
    other_mean, other_error = _block_mean(other, shares, reference_block)
    error = math.sqrt(own_variance + (other_error / other_mean) ** 2)
    beyond = (reference_log_weights - log_z > math.log(drawn)).astype(np.float64)
    uncovered, uncovered_error = _block_mean(beyond, shares, reference_block)
    return Covering(LogZ("reference", log_z, error), uncovered, uncovered_error)


def missing_mass(
    own: LogZ,
    others: Sequence[LogZ],
    *,
    covering: Covering | None = None,
    pareto_k: float | None = None,
    confidence: float = CONFIDENCE,
) -> MissingMass:
    """Find the largest fraction of probability that is missing, over all comparisons.

    An estimate that is d above the model's own implies that 1 - exp(-d) is missing. The lower confidence bound of d is
    used, with the errors of both and with the confidence shared between the comparisons.

    Args:
        own: The model's importance estimate.
        others: Estimates to compare with.
        covering: Coverage of a reference by the model.
        pareto_k: Shape of the tail of the model's weights. If it is light, small fractions are reported too; if it is
            heavy, the model's own estimate is low also because of mass that it visits too rarely, and the message says
            so.
        confidence: Confidence of the claim that mass is missing.
    """
    estimates = [*others, *([covering.log_z] if covering is not None else [])]
    usable = [other for other in estimates if other.error is not None and math.isfinite(other.value)]
    comparisons = len(usable) + (covering is not None)
    if comparisons == 0 or own.error is None:
        message = "nothing to compare log Z with: pass a reference or other estimates"
        return MissingMass(0.0, confidence, "", message, (own, *estimates), None)
    deviations = float(scipy.stats.norm.ppf(1 - (1 - confidence) / comparisons))
    found = {}
    for other in usable:
        assert other.error is not None
        gap = other.value - own.value - deviations * math.hypot(own.error, other.error)
        found[f"log Z of {other.name}"] = -math.expm1(-max(gap, 0.0))
    if covering is not None:
        found["reference where the model has no density"] = max(
            covering.uncovered - deviations * covering.uncovered_error, 0.0
        )
    source = max(found, key=lambda name: found[name])
    share = found[source]
    uncovered = None if covering is None else covering.uncovered
    smallest = SMALLEST_LIGHT if pareto_k is not None and pareto_k <= LIGHT_K else SMALLEST
    if share < smallest:
        looked = f"{comparisons} comparison{'s' if comparisons > 1 else ''}"
        message = f"no missing mass of {100 * smallest:g} % or more shown by {looked}"
        return MissingMass(0.0, confidence, "", message, (own, *estimates), uncovered)
    sure = f"{100 * confidence:.0f} % confidence, by the {source}"
    message = f"at least {rounded_down(share)} of the probability is missing ({sure})"
    if pareto_k is not None and pareto_k > LARGEST_K:
        message += f"; with a Pareto k of {pareto_k:.2f} this may be mass that the model visits too rarely"
    return MissingMass(share, confidence, source, message, (own, *estimates), uncovered)


def rounded_down(share: float) -> str:
    """Format a lower bound of a fraction in per cent, rounded down.

    Example:
        >>> rounded_down(0.99996), rounded_down(0.0123)
        ('99.9 %', '1.2 %')
    """
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f} %"


def _block_mean(values: np.ndarray, shares: np.ndarray, block: np.ndarray) -> tuple[float, float]:
    """Weighted mean, and its standard error from the scatter between blocks."""
    mean = float((shares * values).sum())
    deviations = np.bincount(block, shares * (values - mean))
    blocks = len(deviations)
    if blocks < 2:
        return mean, math.inf
    return mean, math.sqrt(float((deviations**2).sum()) * blocks / (blocks - 1))
