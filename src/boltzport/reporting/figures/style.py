"""Colours, typography and layout of all figures."""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

P = ParamSpec("P")
T = TypeVar("T")

# Okabe and Ito (2008): safe for colour-blind readers; line styles distinguish them in print.
MODEL = "#d55e00"
REWEIGHTED = "#0072b2"
REFERENCE = "#5b6166"
INK = "#22272b"
FAINT = "#c9ced2"

STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": "#8a9198",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "xtick.color": "#8a9198",
    "ytick.color": "#8a9198",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.8,
    "ytick.major.width": 0.8,
    # Text as outlines is the same on every machine. The salt makes files reproducible.
    "svg.fonttype": "path",
    "svg.hashsalt": "boltzport",
}
TITLE = 9.5
"""Font size of the title of a panel of the usual width."""


class Kind(NamedTuple):
    """Style of one of the three ensembles."""

    label: str
    colour: str
    dashes: Literal["-", "--"]


KINDS = {
    "model": Kind("model", MODEL, "-"),
    "reweighted": Kind("reweighted", REWEIGHTED, "-"),
    "reference": Kind("reference", REFERENCE, "--"),
}


@dataclass(frozen=True, kw_only=True)
class Triple:
    """The same quantity of the model, of the reweighted model and of the reference; any of them may be missing."""

    model: Float[np.ndarray, "..."] | None = None
    reweighted: Float[np.ndarray, "..."] | None = None
    reference: Float[np.ndarray, "..."] | None = None

    def present(self) -> Iterator[tuple[Kind, np.ndarray]]:
        """The quantities that are not missing, with their style."""
        for name, kind in KINDS.items():
            values = getattr(self, name)
            if values is not None:
                yield kind, values


class Marginal(NamedTuple):
    """Densities of one coordinate.

    Attributes:
        name: Name of the coordinate.
        edges: Edges of the bins.
        densities: Densities, one value per bin.
    """

    name: str
    edges: Float[np.ndarray, " edges"]
    densities: Triple


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Make a function draw in the common style, without changing the caller's style."""

    @functools.wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        with mpl.rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def literal(text: str) -> str:
    """A name of the user as text: matplotlib would read what is between two dollar signs as mathematics."""
    return text.replace("$", r"\$")


def grid(panels: int, *, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """An empty figure with panels of a size in inches; the last row may be shorter than the others."""
    columns = max(1, min(columns, panels))
    rows = math.ceil(panels / columns)
    layout = ConstrainedLayoutEngine(h_pad=0.07, w_pad=0.05)
    figure = Figure(figsize=(columns * width, rows * height), layout=layout)
    return figure, [figure.add_subplot(rows, columns, place + 1) for place in range(panels)]


def angle_axis(axes: Axes, *, horizontal: bool) -> None:
    """Set an axis to degrees over a full turn, with a tick at every quarter."""
    axis = axes.xaxis if horizontal else axes.yaxis
    axis.set_ticks([-180, -90, 0, 90, 180])
    (axes.set_xlim if horizontal else axes.set_ylim)(-180, 180)


def stairs(axes: Axes, edges: Float[np.ndarray, " edges"], densities: Triple, *, width: float = 1.5) -> None:
    """Draw densities over bins as outlines, with the reference filled in the background."""
    for kind, values in densities.present():
        if kind is KINDS["reference"]:
            axes.stairs(values, edges, fill=True, color="#e3e6e8", zorder=0)
        axes.stairs(
            values, edges, baseline=None, color=kind.colour, linestyle=kind.dashes, linewidth=width, label=kind.label
        )
