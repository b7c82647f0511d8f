"""A user's own log density, from Python: no files, no molecule."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import Flow, build_flow
from boltzport.layout import Layout, interval
from boltzport.methods import CMT, draw
from boltzport.run.display import Display
from boltzport.run.flow_setting import with_flow
from boltzport.run.presets import CMT_PRESETS, SMALL_FLOW, flow_sizes
from boltzport.targets import CallableTarget, CountedTarget, Purpose
from boltzport.weights import reweighting


class WeightedSamples(NamedTuple):
    """Samples with importance weights.

    Attributes:
        coordinates: The points.
        log_weights: Their log-weights to the target; the mean weight is Z.
        ess: Effective fraction of the samples.
        log_z: Log of the target's normalising constant.
        log_z_error: Standard error of it.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_weights: Float[Tensor, " batch"]
    ess: float
    log_z: float
    log_z_error: float


class FittedDensity:
    """A trained flow with its target.

    Attributes:
        flow: The flow.
        target: The target, with its ledger.
    """

    def __init__(self, flow: Flow, target: CountedTarget) -> None:
        self.flow = flow
        self.target = target

    def draw(self, n: int, *, seed: int = 0) -> WeightedSamples:
        """Draw weighted samples; points at which the density is not finite are left out."""
        generator = torch.Generator().manual_seed(seed)
        drawn = draw(self.flow, self.target, n, generator=generator, progress=_quiet, purpose=Purpose.EVALUATION)
        found, buffer = reweighting(drawn.log_weights), drawn.buffer
        log_weights = buffer.log_p - buffer.log_q
        return WeightedSamples(buffer.coordinates, log_weights, found.ess_unclipped, *found.log_z)


def fit_density(
    log_density: Callable[[Tensor], Tensor],
    space: Layout | Sequence[tuple[float | int, float | int]],
    *,
    settings: Sequence[str] = (),
    seed: int = 0,
    progress: bool = True,
) -> FittedDensity:
    """Train a flow on any log density.

    Args:
        log_density: Points (batch, dimensions) to the unnormalised log density (batch,).
        space: A layout, or the lower and upper end of each coordinate, with a uniform density to begin with.
        settings: `key=value`, as for `boltzport train --set`.
        seed: Of everything that is random.
        progress: Show how far the training is.

    Raises:
        InputError: A setting is wrong, or the function returns a tensor of another shape.
        RunError: The training failed.

    Example:
        >>> model = fit_density(lambda x: -0.5 * (x**2).sum(1), [(-5.0, 5.0)], settings=["steps=2"], progress=False)
        >>> model.draw(1000).coordinates.shape
        torch.Size([1000, 1])
    """
    layout = (
        space if isinstance(space, Layout) else Layout(interval(float(lower), float(upper)) for lower, upper in space)
    )
    parts = with_flow({"method": CMT_PRESETS.small}, settings, kind="couplings", sizes=flow_sizes(SMALL_FLOW))
    generator = torch.Generator().manual_seed(seed)
    flow = build_flow(layout, parts["flow"], generator=generator, compiled=False)
    target, transport = CountedTarget(CallableTarget(log_density, layout)), CMT(parts["method"])
    state = transport.init(flow, target)
    display = Display(transport.steps, left=transport.steps_left(state), silent=not progress)
    with display.shown():
        while not transport.finished(state):
            info = transport.step(state, generator=generator, progress=display.stage)
            display.step(info, left=transport.steps_left(state))
    return FittedDensity(state.result(), target)


def _quiet(_stage: str, _done: int, _total: int) -> None:
    pass
