"""Errors of free energy profiles against the work that they cost, of several samplers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boltzport.reporting.figures.runs import COLOURS, DASHES
from boltzport.reporting.figures.style import REFERENCE, grid, literal, styled

REACH = 3.0
"""Lines are continued to this factor beyond the largest work."""


class ErrorCurve(NamedTuple):
    """Error of one sampler along its runs.

    Attributes:
        name: Name in the legend.
        evaluations: Target evaluations of a run.
        seconds: Seconds of processor time of a run.
        before: Evaluations and seconds before the first frame of a run: training, pilots, warm-up.
        errors: Mean absolute error of the profile in kT, averaged over runs.
        spread: Standard deviation of the error over runs.
        settled: Whether the runs found every basin, so that the error will fall as that of independent samples.
    """

    name: str
    evaluations: Float[np.ndarray, " points"]
    seconds: Float[np.ndarray, " points"]
    before: tuple[float, float]
    errors: Float[np.ndarray, " points"]
    spread: Float[np.ndarray, " points"]
    settled: bool


@styled
def errors_figure(curves: Sequence[ErrorCurve], *, title: str, floor: float | None = None) -> Figure:
    """Error against evaluations, and against processor time, on logarithmic axes.

    Lines of samplers that found every basin are continued, dotted, with one over the square root of the work.

    Args:
        curves: The samplers.
        title: What the error is of.
        floor: Error of the truth itself.
    """
    figure, (left, right) = grid(2, columns=2, width=4.2, height=3.4)
    _panel(left, curves, 0, floor)
    _panel(right, curves, 1, floor)
    left.set_title(literal(title))
    left.set_xlabel("energy evaluations, with training and warm-up")
    right.set_xlabel("processor time in seconds, with training and warm-up")
    left.set_ylabel("mean absolute error / kT")
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _panel(axes: Axes, curves: Sequence[ErrorCurve], work: int, floor: float | None) -> None:
    own = [(curve.evaluations, curve.seconds)[work] for curve in curves]
    end = REACH * max(float(spent[-1]) + curve.before[work] for spent, curve in zip(own, curves, strict=True))
    for place, curve in enumerate(curves):
        colour, dashes = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        spent, before = own[place] + curve.before[work], curve.before[work]
        axes.plot(spent, curve.errors, color=colour, linestyle=dashes, label=literal(curve.name))
        lower = np.maximum(curve.errors - curve.spread, 0.3 * curve.errors)
        axes.fill_between(spent, lower, curve.errors + curve.spread, color=colour, alpha=0.15, linewidth=0)
        axes.plot(spent[-1:], curve.errors[-1:], "o", color=colour, markersize=4)
        if not curve.settled:
            continue
        further = np.geomspace(spent[-1], end, 100)
        fallen = curve.errors[-1] * np.sqrt((spent[-1] - before) / (further - before))
        axes.plot(further, fallen, color=colour, linestyle=":", linewidth=1.0)
    if floor is not None and floor > 0.0:
        axes.axhline(floor, color=REFERENCE, linewidth=0.8, linestyle=":", label="error of the truth")
    axes.set_xscale("log")
    axes.set_yscale("log")
    least = min(float(curve.errors.min()) for curve in curves)
    axes.set_ylim(bottom=0.5 * min([least, *([floor] if floor else [])]))
