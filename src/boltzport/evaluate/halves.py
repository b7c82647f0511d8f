"""Which half of a flow falls short: its torsions, or the stiff coordinates given them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import Flow, HalvedFlow
from boltzport.metrics import Interval, interval
from boltzport.targets import CountedTarget, Purpose
from boltzport.weights import HalvedEss, effective_halves

TORSIONS = 2000
"""How many are drawn, where there are samples enough."""
EACH = 16
"""Sets of stiff coordinates for each of them."""
REPLICATES = 200
"""How often the torsions are resampled."""


class Halves(NamedTuple):
    """Effective fractions of the two halves of a flow, and their intervals.

    Attributes:
        ess: Of the torsions' marginal density, and of the stiff coordinates given the torsions.
        intervals: Of `ess_torsions` and `ess_stiff`.
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
    """Effective fractions by several sets of stiff coordinates for each of some torsions; none without two halves.

    Args:
        flow: The model.
        target: The target; evaluations are counted in its ledger.
        n: Most points to draw.
        batch: How many of them are in memory at once.
        generator: Draws the points.
        rng: Resamples the torsions.
    """
    if not isinstance(flow, HalvedFlow) or not (len(flow.torsions) and len(flow.stiff)):
        return None
    count, most = min(TORSIONS, n // EACH), max(1, batch // EACH)
    parts = [
        _log_weights(flow, target, min(most, count - start), generator=generator) for start in range(0, count, most)
    ]
    return halves(torch.cat(parts), rng)


def halves(log_weights: Float[Tensor, "torsions each"], rng: np.random.Generator) -> Halves:
    """Effective fractions with intervals by the bootstrap over torsions, which are independent.

    Args:
        log_weights: Of the sets of stiff coordinates of each of the torsions.
        rng: Resamples the torsions.
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
