"""Slow coordinates of a reference by time-lagged independent component analysis (TICA), with deeptime.

Features are sine and cosine of the named torsions (phi, psi, omega, chi), the torsional half of those of Tan et al.
(2025); their other half, distances between heavy atoms, would need the positions of every sample of the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from boltzport.analysis.metrics.histogram import Grid

LAGS = (10, 3, 1)
"""Lags in frames; the first at which frames are still correlated is used. Tempered chains decorrelate fast."""
COMPONENTS = 2
BINS = 100
LEAST_CORRELATION = 0.02
"""Smallest leading correlation at a lag, above that of noise, for which the time order of frames is useful."""


@dataclass(frozen=True, kw_only=True)
class Tica:
    """A linear map to slow coordinates.

    Attributes:
        offset: Value at zero features, (components,).
        matrix: Matrix from features to components.
        correlations: Correlation of each component at the lag.
        lag: Lag in frames.
    """

    offset: Float[np.ndarray, " components"]
    matrix: Float[np.ndarray, "features components"]
    correlations: Float[np.ndarray, " components"]
    lag: int

    def project(self, features: Float[np.ndarray, "batch features"]) -> Float[np.ndarray, "batch components"]:
        """Slow coordinates of samples."""
        return np.asarray(self.offset + features @ self.matrix)


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """Reason why a metric was left out."""

    reason: str


def torsion_features(torsions: Float[np.ndarray, "batch torsions"]) -> Float[np.ndarray, "batch features"]:
    """Sine and cosine of torsions in radian."""
    return np.concatenate([np.sin(torsions), np.cos(torsions)], axis=1).astype(np.float64)


def fit_tica(
    features: Float[np.ndarray, "frames features"],
    chain: Int[np.ndarray, " frames"],
    weights: Float[np.ndarray, " frames"],
    *,
    lags: Sequence[int] = LAGS,
) -> Tica | Skipped:
    """Fit the slow coordinates of chains; pairs of frames at the lag are always from the same chain.

    Args:
        features: Features of each frame; the frames of a chain are in time order.
        chain: Index of the chain of each frame.
        weights: Weights of the frames; if they differ, the frames do not follow dynamics.
        lags: Lags in frames, tried in turn; at most a quarter of the longest chain.
    """
    if np.ptp(weights) > 1e-6 * weights.mean():
        return Skipped(reason="the frames of the reference are weighted, so they have no time order")
    lengths = np.unique(chain, return_counts=True)[1]
    if lengths.max() < 4 or features.shape[1] < COMPONENTS:
        return Skipped(reason="expected chains of at least 4 frames and at least 2 features")
    order = np.argsort(chain, kind="stable")
    trajectories = np.split(features[order], np.cumsum(lengths)[:-1])
    # Largest correlation of pure noise, over all directions.
    noise = 3 * np.sqrt(features.shape[1] / len(features))
    for lag in lags:
        short = min(lag, int(lengths.max()) // 4)
        found = _fit([part for part in trajectories if len(part) > short], short)
        if found.correlations[0] > LEAST_CORRELATION + noise:
            return found
    return Skipped(reason=f"frames of the reference are not correlated in time, not even at a lag of {lags[-1]}")


def _fit(trajectories: list[np.ndarray], lag: int) -> Tica:
    from deeptime.decomposition import TICA

    model = TICA(lagtime=lag, dim=COMPONENTS).fit(trajectories).fetch_model()
    count = trajectories[0].shape[1]
    offset = model.transform(np.zeros((1, count)))[0]
    matrix = model.transform(np.eye(count)) - offset
    # The sign of a component is arbitrary: its largest coefficient is made positive.
    signs = np.sign(matrix[np.abs(matrix).argmax(0), np.arange(matrix.shape[1])])
    correlations = np.asarray(model.singular_values[:COMPONENTS], dtype=np.float64)
    return Tica(offset=offset * signs, matrix=matrix * signs, correlations=correlations, lag=lag)


def tica_grid(projected: Float[np.ndarray, "frames components"]) -> Grid:
    """Cells over the range of the reference, as in the paper."""
    return Grid(projected.min(0).tolist(), projected.max(0).tolist(), (BINS,) * projected.shape[1])
