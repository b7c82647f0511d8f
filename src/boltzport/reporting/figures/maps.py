"""Maps over two coordinates: Ramachandran free energies, and densities of toys."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from boltzport.reporting.figures.style import TITLE, Triple, angle_axis, grid, literal, styled

BAR = 0.12
"""Width of a colour bar in inches."""
CEILING = 10.0
"""Free energies above this are left white, in kT: a few samples of small weight say nothing there."""


def free_energy(probability: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Free energy in kT above the lowest bin; NaN for empty bins."""
    with np.errstate(divide="ignore"):
        found = -np.log(probability)
    found = np.where(np.isfinite(found), found, np.nan)
    return found - np.nanmin(found) if np.isfinite(found).any() else found


class Panel(NamedTuple):
    """One map.

    Attributes:
        title: Title of the panel.
        colour: Colour of the title.
        values: Probabilities of the bins, first coordinate first.
        edges: Edges of the bins; None for a map over torsions, from -pi to pi.
    """

    title: str
    colour: str
    values: Float[np.ndarray, "rows columns"]
    edges: tuple[Float[np.ndarray, " edges0"], Float[np.ndarray, " edges1"]] | None = None


def ramachandran_figure(name: str, maps: Triple, *, columns: int = 3) -> Figure:
    """Free energies over phi and psi, one panel for each ensemble, all on one scale.

    Args:
        name: Name of the residue.
        maps: Probabilities of bins over -pi to pi, phi first.
        columns: Number of panels in a row.
    """
    panels = [Panel(f"{name}, {kind.label}", kind.colour, probability) for kind, probability in maps.present()]
    return ramachandran_panels(panels, columns=columns)


def torsions_figure(names: tuple[str, str], maps: Triple, *, columns: int = 3) -> Figure:
    """Free energies over two torsions, one panel for each ensemble, all on one scale.

    Args:
        names: Names of the torsions.
        maps: Probabilities of bins over -pi to pi, the first torsion first.
        columns: Number of panels in a row.
    """
    panels = [Panel(kind.label, kind.colour, probability) for kind, probability in maps.present()]
    return ramachandran_panels(panels, columns=columns, labels=(f"{names[0]} / °", f"{names[1]} / °"))


@styled
def ramachandran_panels(
    panels: Sequence[Panel], *, columns: int, width: float = 3.1, labels: tuple[str, str] = ("φ / °", "ψ / °")
) -> Figure:
    """Free energies over phi and psi, or two other torsions, for any panels, all on one scale.

    Args:
        panels: Probabilities of bins over -pi to pi, phi first.
        columns: Number of panels in a row.
        width: Width of a panel in inches.
        labels: Labels of the two axes.
    """
    energies = [free_energy(panel.values) for panel in panels]
    # The colours cover only the free energies that were sampled.
    highest = max((float(np.nanmax(values)) for values in energies if np.isfinite(values).any()), default=1.0)
    figure, axes = grid(len(panels), columns=columns, width=width, height=0.95 * width)
    image = None
    for place, (drawn, panel, values) in enumerate(zip(axes, panels, energies, strict=True)):
        image = drawn.imshow(
            np.where(values <= CEILING, values, np.nan).T,
            origin="lower",
            extent=(-180, 180, -180, 180),
            cmap="viridis",
            vmin=0.0,
            vmax=max(1.0, min(CEILING, highest)),
            interpolation="nearest",
        )
        drawn.set_title(literal(panel.title), color=panel.colour, fontsize=TITLE * min(1.0, width / 3.1))
        angle_axis(drawn, horizontal=True)
        angle_axis(drawn, horizontal=False)
        drawn.set_xlabel(labels[0])
        if place % columns == 0:
            drawn.set_ylabel(labels[1])
    assert image is not None
    _scale(figure, image, axes, label="free energy / kT", narrow=columns == 1)
    return figure


def density_figure(
    maps: Triple,
    edges: tuple[Float[np.ndarray, " edges0"], Float[np.ndarray, " edges1"]],
    *,
    labels: tuple[str, str],
    columns: int = 3,
) -> Figure:
    """Probabilities over two coordinates, one panel for each ensemble, all on one scale.

    Args:
        maps: Probabilities of the bins, first coordinate first.
        edges: Edges of the bins.
        labels: Labels of the two axes.
        columns: Number of panels in a row.
    """
    panels = [Panel(kind.label, kind.colour, values, edges) for kind, values in maps.present()]
    return density_panels(panels, labels=labels, columns=columns)


@styled
def density_panels(
    panels: Sequence[Panel], *, labels: tuple[str, str], columns: int, width: float = 3.1, scale: str | None = None
) -> Figure:
    """Probabilities over two coordinates for any panels, all on one scale and over one range.

    Args:
        panels: Probabilities or densities of the bins.
        labels: Labels of the two axes.
        columns: Number of panels in a row.
        width: Width of a panel in inches.
        scale: Label of the colour scale; the probability of a bin by default.
    """
    highest = max(float(np.nanmax(panel.values)) for panel in panels)
    ranges = [
        _visited([(panel.edges[axis], panel.values.sum(1 - axis)) for panel in panels if panel.edges is not None])
        for axis in (0, 1)
    ]
    figure, axes = grid(len(panels), columns=columns, width=width, height=0.95 * width)
    image = None
    for place, (drawn, panel) in enumerate(zip(axes, panels, strict=True)):
        assert panel.edges is not None
        seen = np.where(panel.values > 0, panel.values, np.nan).T
        image = drawn.pcolormesh(*panel.edges, seen, cmap="viridis_r", vmin=0.0, vmax=highest, rasterized=True)
        drawn.set_title(literal(panel.title), color=panel.colour, fontsize=TITLE * min(1.0, width / 3.1))
        drawn.set_box_aspect(1.0)
        drawn.set_xlim(*ranges[0])
        drawn.set_ylim(*ranges[1])
        drawn.set_xlabel(labels[0])
        if place % columns == 0:
            drawn.set_ylabel(labels[1])
    assert image is not None
    _scale(figure, image, axes, label=scale or "probability of a bin", narrow=columns == 1)
    return figure


def _visited(marginals: list[tuple[np.ndarray, np.ndarray]]) -> tuple[float, float]:
    """The range of all but a few samples of every ensemble, with a margin.

    Args:
        marginals: Edges of the bins, and their contents.
    """
    ends = []
    for edges, values in marginals:
        places = np.flatnonzero(values > 1e-4 * values.max())
        ends.append((edges[places[0]], edges[places[-1] + 1]) if len(places) else (edges[0], edges[-1]))
    lower, upper = min(float(end[0]) for end in ends), max(float(end[1]) for end in ends)
    margin = 0.05 * (upper - lower)
    first, last = min(float(edges[0]) for edges, _ in marginals), max(float(edges[-1]) for edges, _ in marginals)
    return max(lower - margin, first), min(upper + margin, last)


def _scale(figure: Figure, image: ScalarMappable, axes: list[Axes], *, label: str, narrow: bool) -> None:
    """Add the common colour scale of all panels: beside them, or below them on a phone."""
    if narrow:
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=30, pad=0.01)
    else:
        aspect = 0.85 * figure.get_figheight() / BAR
        bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=aspect, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
