"""Free energy profiles along one coordinate, and their error with respect to a reference."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from boltzport.analysis.metrics.bootstrap import Draws, Interval, interval
from boltzport.analysis.metrics.histogram import BlockedHistogram, Grid, normalise


class ProfileError(NamedTuple):
    """Error of a profile with respect to a reference.

    Attributes:
        mae: Mean absolute error in kT over the bins that both visit, with at least half a sample's probability; NaN
            if there are none. Without this bound, a weighted bin with only clashes could have any free energy.
        unvisited: Number of bins that the reference visits and the model does not; they are not in the mean.
        interval: Confidence interval of mae.
    """

    mae: float
    unvisited: int
    interval: Interval | None


def free_energy(probabilities: Float[np.ndarray, "*batch bins"]) -> Float[np.ndarray, "*batch bins"]:
    """Minus the log of the density relative to the uniform one, in kT; infinite in empty bins."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(probabilities * probabilities.shape[-1]))


def first_axis(histogram: BlockedHistogram) -> BlockedHistogram:
    """Marginal histogram along the first of two axes."""
    grid = histogram.grid
    line = Grid(grid.lower[:1].tolist(), grid.upper[:1].tolist(), grid.bins[:1], grid.period[:1].tolist())
    marginal = BlockedHistogram(line, blocks=len(histogram.sums))
    marginal.sums[:] = histogram.sums.reshape(len(histogram.sums), *grid.bins).sum(2)
    marginal.count = histogram.count
    return marginal


def mean_absolute_error(
    reference: Float[np.ndarray, "*batch bins"],
    model: Float[np.ndarray, "*batch bins"],
    *,
    reference_least: float = 0.0,
    model_least: float = 0.0,
) -> Float[np.ndarray, "*batch"]:
    """Mean absolute difference of free energies over the bins that both visit.

    Both are normalised densities, so no common constant is fitted.

    Args:
        reference: Probabilities of the bins in the reference.
        model: Probabilities of the bins in the model.
        reference_least: Probability above which a bin counts as visited by the reference.
        model_least: Probability above which a bin counts as visited by the model.
    """
    both = (reference > reference_least) & (model > model_least)
    difference = np.where(both, np.log(np.where(both, reference, 1.0)) - np.log(np.where(both, model, 1.0)), 0.0)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(difference).sum(-1) / both.sum(-1))


def profile_error(reference: BlockedHistogram, model: BlockedHistogram, draws: Draws) -> ProfileError:
    """Mean absolute error of the free energy along a coordinate, with an interval from the noise of both."""
    truth, found = reference.probabilities(), model.probabilities()
    truths = reference.replicates(draws.reference)
    founds = model.replicates(draws.model)
    least = {"reference_least": 0.5 / max(reference.count, 1), "model_least": 0.5 / max(model.count, 1)}
    mae = float(mean_absolute_error(truth, found, **least))
    return ProfileError(
        mae=mae,
        unvisited=int(((truth > least["reference_least"]) & ~(found > least["model_least"])).sum()),
        interval=interval(mae, mean_absolute_error(truths, founds, **least), blocks=draws.blocks, least=0.0),
    )


def profile_deviation(
    histogram: BlockedHistogram, draws: Float[np.ndarray, "replicates blocks"]
) -> Float[np.ndarray, " bins"]:
    """Standard error of the free energy in each bin, in kT; NaN in empty bins, infinite if one block has all."""
    relative = normalise(draws @ histogram.sums)
    mean = relative.mean(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = relative.std(0) / mean
    occupied = (histogram.sums > 0).sum(0)
    return np.where(occupied == 1, np.inf, deviation)
