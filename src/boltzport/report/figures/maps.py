"""Maps over two coordinates: Ramachandran free energies, and densities of toys."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from boltzport.report.figures.style import Triple, angle_axis, grid

CEILING = 8.0
"""Free energies above it are drawn alike, kT: a bin that one sample in some thousands visits."""


def free_energy(probability: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    """Free energy in kT above the lowest bin; NaN where nothing was seen."""
    with np.errstate(divide="ignore"):
        found = -np.log(probability)
    found = np.where(np.isfinite(found), found, np.nan)
    return found - np.nanmin(found) if np.isfinite(found).any() else found


def ramachandran_figure(name: str, maps: Triple, *, columns: int = 3) -> Figure:
    """Free energies over phi and psi, one panel for each ensemble, all on one scale.

    Args:
        name: Of the residue.
        maps: Probabilities of bins over -pi to pi, phi first.
        columns: Panels in a row.
    """
    panels = list(maps.present())
    figure, axes = grid(len(panels), columns=columns, width=3.1, height=2.95)
    image = None
    for place, (panel, (kind, probability)) in enumerate(zip(axes, panels, strict=True)):
        image = panel.imshow(
            free_energy(probability).T,
            origin="lower",
            extent=(-180, 180, -180, 180),
            cmap="viridis",
            vmin=0.0,
            vmax=CEILING,
            interpolation="nearest",
        )
        panel.set_title(f"{name}, {kind.label}", color=kind.colour)
        angle_axis(panel, horizontal=True)
        angle_axis(panel, horizontal=False)
        panel.set_xlabel("φ / °")
        if place % columns == 0:
            panel.set_ylabel("ψ / °")
    assert image is not None
    bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=30, extend="max", pad=0.02)
    bar.set_label("free energy / kT")
    bar.outline.set_visible(False)
    return figure


def density_figure(
    maps: Triple,
    edges: tuple[Float[np.ndarray, " edges0"], Float[np.ndarray, " edges1"]],
    *,
    labels: tuple[str, str],
    columns: int = 3,
) -> Figure:
    """Densities over two coordinates, one panel for each ensemble, all on one scale.

    Args:
        maps: Densities or probabilities of the bins, first coordinate first.
        edges: Of the bins.
        labels: Of the two axes.
        columns: Panels in a row.
    """
    panels = list(maps.present())
    highest = max(float(np.nanmax(values)) for _, values in panels)
    figure, axes = grid(len(panels), columns=columns, width=3.1, height=2.95)
    image = None
    for place, (panel, (kind, values)) in enumerate(zip(axes, panels, strict=True)):
        image = panel.pcolormesh(edges[0], edges[1], values.T, cmap="viridis", vmin=0.0, vmax=highest, rasterized=True)
        panel.set_title(kind.label, color=kind.colour)
        panel.set_box_aspect(1.0)
        panel.set_xlabel(labels[0])
        if place % columns == 0:
            panel.set_ylabel(labels[1])
    assert image is not None
    bar = figure.colorbar(image, ax=axes, shrink=0.85, aspect=30, pad=0.02)
    bar.set_label("density")
    bar.outline.set_visible(False)
    return figure
