"""Points with torsions of a broader flow: what rare conformations are learned from.

A conformation that the flow has a tenth of its share of comes up once in a buffer with a weight of ten, and a fit to
such points is noise. A flow from the middle of the annealing has many more of them. Points of both flows together are a
sample of the mixture of their densities, and are weighted by that (balance heuristic, Veach and Guibas 1995).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import HalvedFlow
from boltzport.methods.cmt.learners import Lesson
from boltzport.methods.fit import FitData
from boltzport.targets import CountedTarget, Purpose


class Wide(NamedTuple):
    """Points whose torsions are of a broader flow, and whose stiff coordinates given them are of the present one.

    Attributes:
        coordinates: The points.
        torsions: Those of them that turn.
        log_ratio: Log of the next density over the present flow's.
        log_torsions: Log density of the torsions under the present flow.
        drawn: How many were drawn: those that failed are not among the points.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    torsions: Float[Tensor, "batch torsions"]
    log_ratio: Float[Tensor, " batch"]
    log_torsions: Float[Tensor, " batch"]
    drawn: int


@torch.no_grad()
def draw_wide(
    flow: HalvedFlow,
    broader: HalvedFlow,
    target: CountedTarget,
    lesson: Lesson,
    n: int,
    *,
    generator: torch.Generator,
) -> Wide:
    """Draw points, and evaluate the target there; those that fail are taken out.

    Args:
        flow: The present flow.
        broader: Where torsions come from.
        target: The density.
        lesson: Tells the next density.
        n: Points to draw.
        generator: Draws them.
    """
    drawn = broader.sample(n, generator=generator)
    coordinates, log_stiff = flow.sample_stiff(drawn, generator=generator)
    log_torsions = flow.torsion_log_prob(coordinates).double()
    parts = [target.evaluate(part, Purpose.TRAINING) for part in torch.split(coordinates, flow.chunk)]
    log_p, log_volume = (torch.cat(fields) for fields in zip(*parts, strict=True))
    log_ratio = lesson.log_ratio_at(log_torsions + log_stiff.double() - log_volume, log_p)
    good = log_ratio.isfinite() & log_torsions.isfinite()
    coordinates = coordinates[good]
    return Wide(coordinates, coordinates[:, flow.torsions], log_ratio[good], log_torsions[good], n)


@torch.no_grad()
def mixed(data: FitData, wide: Wide, broader: HalvedFlow) -> FitData:
    """Torsions of the present flow and of a broader one as the points of one fit.

    Args:
        data: Torsions of the present flow, which they were drawn from.
        wide: Points of the broader flow.
        broader: The broader flow.
    """
    assert data.log_drawn is not None
    torsions = torch.cat([data.coordinates, wide.torsions])
    log_present = torch.cat([data.log_drawn, wide.log_torsions])
    share = wide.drawn / (wide.drawn + data.size)
    log_mixture = torch.logaddexp(
        math.log1p(-share) + log_present, math.log(share) + broader.log_prob_of_torsions(torsions).double()
    )
    log_weights = torch.cat([data.log_weights, wide.log_ratio]) + log_present - log_mixture
    # A point on the edge of the box may be rounded to the wrong side of it, where neither flow has a density.
    good = log_weights.isfinite()
    return FitData(torsions[good], log_weights[good], log_mixture[good], log_mixture[good])
