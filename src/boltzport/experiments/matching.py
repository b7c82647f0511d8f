"""Match the local coordinates of a flow to another description of its molecule, by a few gradients."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from boltzport.core.seeds import derived
from boltzport.core.weights import clamped, effective_fraction
from boltzport.experiments.build import OpenTarget
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose

if TYPE_CHECKING:
    from boltzport.targets.boltzmann import BoltzmannTarget, HarmonicMap

ROUNDS = 3
"""Number of times that the coordinates are matched; each starts where the last one ended."""
LOWEST = 0.01
"""Fraction of the log-weights that are raised to the highest of them, since single clashes would dominate a mean."""


class Matched(NamedTuple):
    """A target on matched coordinates.

    Attributes:
        target: The target.
        ess: Effective size of the flow's samples as a fraction, from the few that were drawn.
    """

    target: OpenTarget
    ess: float


class _Sloped(NamedTuple):
    """Samples of a flow with their log-weights, and the slopes of both log densities there."""

    coordinates: Tensor
    log_weights: Tensor
    of_flow: Tensor
    of_target: Tensor

    @property
    def bound(self) -> float:
        """The evidence lower bound."""
        return float(clamped(self.log_weights, LOWEST).mean())


def match(flow: Flow, target: OpenTarget, n: int, *, seed: int) -> Matched | None:
    """Match the local coordinates of a flow to its new target.

    The flow is unchanged: with its local coordinates shifted and scaled linearly, it is another density of positions.
    The evidence lower bound shows whether that one is nearer to the target.

    Args:
        flow: The trained flow.
        target: The new description, on the coordinates of the flow.
        n: Number of evaluations with a gradient.
        seed: Seed of the random generator.

    Returns:
        The target on the new coordinates; None if there is nothing to match, if the evaluations are too few, or if
        nothing is gained.
    """
    from boltzport.targets.boltzmann import PER_COORDINATE, BoltzmannTarget, matched, nearest_normal

    inner = target.counted.target
    # One more draw judges the last round.
    each = n // (ROUNDS + 1)
    if not isinstance(inner, BoltzmannTarget) or inner.map is None or not target.counted.differentiable:
        return None
    local = inner.map.local
    if each < PER_COORDINATE * len(local):
        return None
    generator = derived(seed, "matching")
    best, drawn = target, _draw(flow, target.counted, each, generator)
    if not len(drawn.log_weights):
        return None
    for _ in range(ROUNDS):
        here = best.counted.target
        assert isinstance(here, BoltzmannTarget)
        assert here.map is not None
        before, after = (
            nearest_normal(drawn.coordinates[:, local], slopes[:, local]) for slopes in (drawn.of_flow, drawn.of_target)
        )
        other = _on(best, here, matched(here.map, before, after))
        found = _draw(flow, other.counted, each, generator)
        if not len(found.log_weights) or found.bound <= drawn.bound:
            break
        best, drawn = other, found
    return None if best is target else Matched(best, effective_fraction(drawn.log_weights))


def _on(target: OpenTarget, inner: "BoltzmannTarget", map_: "HarmonicMap") -> OpenTarget:
    """The same target on other local coordinates, with the same ledger."""
    from boltzport.targets.boltzmann import BoltzmannTarget

    assert target.energy is not None
    made = BoltzmannTarget(inner.molecule, target.energy.evaluate, inner.layout, map_)
    return replace(target, counted=CountedTarget(made, target.counted.ledger))


def _draw(flow: Flow, target: CountedTarget, n: int, generator: torch.Generator) -> _Sloped:
    with torch.no_grad():
        points, log_q = flow.sample_and_log_prob(n, generator=generator)
    with torch.enable_grad():
        points = points.detach().requires_grad_()
        (of_flow,) = torch.autograd.grad(flow.log_prob(points).sum(), points)
        log_p, log_volume = target.evaluate(points, Purpose.MONITORING)
        log_p = log_p + log_volume
        good = log_p.isfinite()
        (of_target,) = torch.autograd.grad(log_p[good].sum(), points)
    log_weights = log_p.detach() - log_q.double()
    return _Sloped(points.detach()[good], log_weights[good], of_flow[good], of_target[good])
