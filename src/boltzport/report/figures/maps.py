"""Maps over two coordinates: Ramachandran free energies, and densities of toys."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure

from boltzport.report.figures.style import Triple, angle_axis, grid, styled

CEILING = 10.0
"""Free energies above it are left white, kT: a few light samples far up say nothing."""


def free_energy(probability: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Free energy in kT above the lowest bin; NaN where nothing was seen."""
    with np.errstate(divide="ignore"):
        found = -np.log(probability)
    found = np.where(np.isfinite(found), found, np.nan)
    return found - np.nanmin(found) if np.isfinite(found).any() else found


@styled
def ramachandran_figure(name: str, maps: Triple, *, columns: int = 3) -> Figure:
    """Free energies over phi and psi, one panel for each ensemble, all on one scale.

    Args:
        name: Of the residue.
        maps: Probabilities of bins over -pi to pi, phi first.
        columns: Panels in a row.
    """
    panels = [(kind, free_energy(probability)) for kind, probability in maps.present()]
    # A few samples leave high free energies unseen; the colours go to those that are seen.
    highest = max((float(np.nanmax(values)) for _, values in panels if np.isfinite(values).any()), default=1.0)
    figure, axes = grid(len(panels), columns=columns, width=3.1, height=2.95)
    image = None
    for place, (panel, (kind, values)) in enumerate(zip(axes, panels, strict=True)):
        image = panel.imshow(
            np.where(values <= CEILING, values, np.nan).T,
            origin="lower",
            extent=(-180, 180, -180, 180),
            cmap="viridis",
            vmin=0.0,
            vmax=max(1.0, min(CEILING, highest)),
            interpolation="nearest",
        )
        panel.set_title(f"{name}, {kind.label}", color=kind.colour)
        angle_axis(panel, horizontal=True)
        angle_axis(panel, horizontal=False)
        panel.set_xlabel("φ / °")
        if place % columns == 0:
            panel.set_ylabel("ψ / °")
    assert image is not None
    _scale(figure, image, axes, label="free energy / kT", narrow=columns == 1)
    return figure


@styled
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
        edges: Of the bins.
        labels: Of the two axes.
        columns: Panels in a row.
    """
    panels = list(maps.present())
    highest = max(float(np.nanmax(values)) for _, values in panels)
    figure, axes = grid(len(panels), columns=columns, width=3.1, height=2.95)
    image = None
    for place, (panel, (kind, values)) in enumerate(zip(axes, panels, strict=True)):
        image = panel.pcolormesh(
            *edges, np.where(values > 0, values, np.nan).T, cmap="viridis_r", vmin=0.0, vmax=highest, rasterized=True
        )
        panel.set_title(kind.label, color=kind.colour)
        panel.set_box_aspect(1.0)
        panel.set_xlim(*_visited(edges[0], [values.sum(1) for _, values in panels]))
        panel.set_ylim(*_visited(edges[1], [values.sum(0) for _, values in panels]))
        panel.set_xlabel(labels[0])
        if place % columns == 0:
            panel.set_ylabel(labels[1])
    assert image is not None
    _scale(figure, image, axes, label="probability of a bin", narrow=columns == 1)
    return figure


def _visited(edges: np.ndarray, marginals: list[np.ndarray]) -> tuple[float, float]:
    """The range in which all but a few of the samples of every ensemble lie, with a margin."""
    places = np.flatnonzero(np.any([values > 1e-4 * values.max() for values in marginals], axis=0))
    if len(places) == 0:
        return float(edges[0]), float(edges[-1])
    lower, upper = float(edges[places[0]]), float(edges[places[-1] + 1])
    margin = 0.05 * (upper - lower)
    return max(lower - margin, float(edges[0])), min(upper + margin, float(edges[-1]))


def _scale(figure: Figure, image: ScalarMappable, axes: list[Axes], *, label: str, narrow: bool) -> None:
    """The one colour scale of all panels: beside them, or below them on a phone."""
    if narrow:
        bar = figure.colorbar(image, ax=axes, location="bottom", aspect=30, pad=0.01)
    else:
        bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=30, pad=0.02)
    bar.set_label(label)
    bar.outline.set_visible(False)
