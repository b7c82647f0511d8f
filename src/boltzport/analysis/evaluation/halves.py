"""Effective sample sizes of the two halves of a flow: the torsions, and the stiff coordinates given them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.analysis.metrics import Interval, interval
from boltzport.core.weights import HalvedEss, effective_halves
from boltzport.flows import Flow, HalvedFlow
from boltzport.targets import CountedTarget, Purpose

TORSIONS = 2000
"""Maximum number of samples of the torsions."""
EACH = 16
"""Number of sets of stiff coordinates for each sample of the torsions."""
REPLICATES = 200
"""Number of bootstrap replicates."""


class Halves(NamedTuple):
    """Effective sample sizes of the two halves of a flow, as fractions, and their intervals.

    Attributes:
        ess: Those of the marginal density of the torsions, and of the stiff coordinates given the torsions.
        intervals: Intervals of `ess_torsions` and `ess_stiff`.
    """

    ess: HalvedEss
    intervals: Mapping[str, Interval | None]


def evaluate_halves(
    flow: Flow,
    target: CountedTarget,
    *,
    n: int,
    batch: int,
    generator: torch.Generator,
    rng: np.random.Generator,
) -> Halves | None:
    """Effective sample sizes from several stiff points for each sample of the torsions; None for other flows.

    Args:
        flow: The model.
        target: The target; its ledger counts the evaluations.
        n: Maximum number of points.
        batch: Batch size.
        generator: Random generator of the points.
        rng: Random generator of the bootstrap.
    """
    if not isinstance(flow, HalvedFlow) or not (len(flow.torsions) and len(flow.stiff)):
        return None
    count, most = min(TORSIONS, n // EACH), max(1, batch // EACH)
    parts = [
        _log_weights(flow, target, min(most, count - start), generator=generator) for start in range(0, count, most)
    ]
    return halves(torch.cat(parts), rng)


def halves(log_weights: Float[Tensor, "torsions each"], rng: np.random.Generator) -> Halves:
    """Effective sample sizes with intervals by a bootstrap over the torsions, which are independent.

    Args:
        log_weights: Log-weights of the stiff points of each sample of the torsions.
        rng: Random generator of the bootstrap.
    """
    count = len(log_weights)
    drawn = torch.from_numpy(rng.integers(count, size=(REPLICATES, count)))
    found = effective_halves(log_weights)
    replicates = np.array([effective_halves(log_weights[rows]) for rows in drawn])
    return Halves(
        found,
        {
            f"ess_{name}": interval(value, replicates[:, column], blocks=count)
            for column, (name, value) in enumerate(found._asdict().items())
        },
    )


@torch.no_grad()
def _log_weights(
    flow: HalvedFlow, target: CountedTarget, count: int, *, generator: torch.Generator
) -> Float[Tensor, "torsions each"]:
    drawn = flow.sample_by_halves(count, EACH, generator=generator)
    log_p, log_volume = target.evaluate(drawn.coordinates, Purpose.EVALUATION)
    return (log_p + log_volume - drawn.log_q.double()).view(count, EACH).cpu()
