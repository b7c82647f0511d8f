"""Points with torsions of a broader flow, from which rare conformations are learned.

A conformation that the flow samples ten times too rarely appears with a tenth of its points and a weight of ten, and
such points make a fit noisy. A flow from the middle of the annealing samples it far more often. The points of both
flows together are a sample of the mixture of their densities, and are weighted accordingly (balance heuristic, Veach
and Guibas 1995).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.parallel import ranks
from boltzport.flows import HalvedFlow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.fit import FitData
from boltzport.training.methods.cmt.learners import Lesson


class Wide(NamedTuple):
    """Points with torsions of a broader flow and stiff coordinates, given the torsions, of the current one.

    Attributes:
        coordinates: The points.
        torsions: The torsions among the coordinates.
        log_ratio: Log ratio of the next density to the current flow's.
        log_torsions: Log density of the torsions under the current flow.
        drawn: Number of points drawn, including those that failed, which are not among the points.
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
    """Draw points and evaluate the target there; points that fail are removed.

    Args:
        flow: The current flow.
        broader: The flow that torsions are drawn from.
        target: Target density.
        lesson: The next density.
        n: Number of points to draw, on all ranks together.
        generator: Random generator.
    """
    n = ranks().share(n)
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
    """Combine torsions of the current flow and of a broader one into the data of one fit.

    Args:
        data: Torsions drawn from the current flow.
        wide: Points with torsions of the broader flow.
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
    # Rounding may move a point at the edge of the box outside of it, where neither flow has a density.
    good = log_weights.isfinite()
    return FitData(torsions[good], log_weights[good], log_mixture[good], log_mixture[good])
