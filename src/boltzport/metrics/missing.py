"""Missing mass: how much of the target's probability a model does not know of.

An importance estimate of log Z counts only what the model visits: where a model covers a fraction f of the target, it
comes out low by log f, with good-looking weights. Other estimates that count the rest show it: a reference, through the
bridge between its samples and the model's; other seeds; the sum along the annealing path; annealed chains.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.stats
from jaxtyping import Float, Int

from boltzport.metrics.importance import LARGEST_K

CONFIDENCE = 0.99
"""With which it is claimed that mass is missing."""
SMALLEST = 0.01
"""Missing share that is reported; smaller ones are not told apart from the biases of the estimates."""
LIGHT_K, SMALLEST_LIGHT = 0.5, 0.001
"""Where the tail of the model's weights is so light, its log Z has a normal error, and smaller shares are reported."""


class LogZ(NamedTuple):
    """An estimate of log Z; one without an error is shown, and nothing is concluded from it."""

    name: str
    value: float
    error: float | None


class MissingMass(NamedTuple):
    """What is missing.

    Attributes:
        at_least: Share of the probability that is missing at least, with the confidence; zero where nothing is shown.
        confidence: Over all comparisons together.
        source: Name of the estimate that shows it; empty where none does.
        message: In words.
        estimates: All estimates of log Z, the model's own first.
        uncovered: Share of the reference where the model's density is too low for its samples to be found, if known.
    """

    at_least: float
    confidence: float
    source: str
    message: str
    estimates: tuple[LogZ, ...]
    uncovered: float | None


class Covering(NamedTuple):
    """What a reference says of a model.

    Attributes:
        log_z: The bridge estimate.
        uncovered: Share of the reference where target over model exceeds the number of the model's samples: a region
            of that kind is expected to hold less than one sample for each that it should.
        uncovered_error: Its standard error.
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
    nothing to the right-hand side, which is how the estimate counts the modes that the model lacks.

    Args:
        model_log_weights: log p - log q at samples of the model; minus infinity where p failed.
        reference_log_weights: log p - log q at samples of the target; infinite where q is zero.
        reference_weights: Weights of those.
        reference_block: Block of each, by chain.
        drawn: How many samples were drawn of the model, of which the first argument may be a part.
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
    """The largest share of probability that is shown to be missing, over all comparisons.

    An estimate that lies d above the model's own says that 1 - exp(-d) is missing; of d the lower confidence bound is
    taken, with the errors of both and with the confidence shared between the comparisons.

    Args:
        own: The model's importance estimate.
        others: Estimates to compare with.
        covering: What a reference says.
        pareto_k: Shape of the tail of the model's weights. Where it is light, small shares are reported as well; where
            it is heavy, the model's own estimate is low also for mass that it visits too rarely, and the message says
            so.
        confidence: That what is claimed is so.
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
        message += f"; with a Pareto k of {pareto_k:.2f} this may be mass that the model visits, too rarely"
    return MissingMass(share, confidence, source, message, (own, *estimates), uncovered)


def rounded_down(share: float) -> str:
    """A share that is missing at least, in per cent; never more than it is.

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
