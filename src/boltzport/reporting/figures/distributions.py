"""Distributions over one coordinate: energies, weights, marginals, and the free energy along a torsion."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from boltzport.reporting.figures.style import (
    INK,
    KINDS,
    REWEIGHTED,
    TITLE,
    Marginal,
    Triple,
    angle_axis,
    grid,
    literal,
    stairs,
    styled,
)

FEW = 6
"""Up to this number of coordinates, panels are large."""
HIGHEST = 16.0
"""Free energy at the upper end of the axis in kT: ten million samples resolve no more, despite tiny weights."""


class EnergyPanel(NamedTuple):
    """Reduced energies of one run.

    Attributes:
        title: Title of the panel.
        edges: Edges of the bins.
        densities: Densities of the model, the reweighted model and the reference.
    """

    title: str
    edges: Float[np.ndarray, " edges"]
    densities: Triple


def energy_figure(edges: Float[np.ndarray, " edges"], densities: Triple) -> Figure:
    """Densities of the reduced energy."""
    return energy_panels([EnergyPanel("", edges, densities)], columns=1, width=4.6)


@styled
def energy_panels(panels: Sequence[EnergyPanel], *, columns: int, width: float) -> Figure:
    """Densities of the reduced energy of several runs, over the same range."""
    figure, drawn = grid(len(panels), columns=columns, width=width, height=0.65 * width + 0.25 * (len(panels) > 1))
    for place, (axes, panel) in enumerate(zip(drawn, panels, strict=True)):
        stairs(axes, panel.edges, panel.densities)
        if panel.title:
            axes.set_title(literal(panel.title), fontsize=TITLE * min(1.0, width / 3.1))
        axes.set_xlim(min(panel.edges[0] for panel in panels), max(panel.edges[-1] for panel in panels))
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("reduced energy / kT")
        if place % columns == 0:
            axes.set_ylabel("density")
    drawn[0].legend()
    return figure


@styled
def weights_figure(log_weights: Float[np.ndarray, " samples"]) -> Figure:
    """Distribution of the log-weights about the log of the mean weight, by samples and by weight."""
    finite = log_weights[np.isfinite(log_weights)]
    largest = finite.max()
    weights = np.exp(finite - largest)
    relative = finite - largest - np.log(weights.mean())
    low = max(float(np.quantile(relative, 0.002)), float(relative.max()) - 40.0)
    edges = np.linspace(low, float(relative.max()) + 1e-9, 81)
    figure, (axes,) = grid(1, columns=1, width=4.6, height=3.0)
    width = np.diff(edges)
    samples = np.histogram(relative, edges)[0] / (len(relative) * width)
    mass = np.histogram(relative, edges, weights=weights)[0] / (weights.sum() * width)
    axes.stairs(samples, edges, color=KINDS["model"].colour, label="samples")
    axes.stairs(mass, edges, color=REWEIGHTED, label="their weight")
    axes.axvline(0.0, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xlabel("log-weight, relative to the mean weight")
    axes.set_ylabel("density")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    return figure


@styled
def profile_figure(
    name: str,
    edges: Float[np.ndarray, " edges"],
    profiles: Triple,
    *,
    error: Float[np.ndarray, " bins"] | None = None,
    label: str = "φ",
) -> Figure:
    """Free energy along phi or another torsion, with the error of the reweighted model, or of the model, as a band.

    Args:
        name: Name of the residue.
        edges: Edges of the bins in radian.
        profiles: Free energies in kT.
        error: Standard error in kT.
        label: Name of the torsion.
    """
    figure, (axes,) = grid(1, columns=1, width=4.6, height=3.0)
    degrees = np.degrees(edges)
    middle = 0.5 * (degrees[1:] + degrees[:-1])
    banded = "model" if profiles.reweighted is None else "reweighted"
    for key, kind in KINDS.items():
        values = getattr(profiles, key)
        if values is None:
            continue
        shown = np.where(np.isfinite(values), values, np.nan)
        axes.plot(middle, shown, color=kind.colour, linestyle=kind.dashes, label=kind.label)
        if error is not None and key == banded:
            # The error of a bin with samples from a single block is not known.
            band = np.where(np.isfinite(error), error, np.nan)
            axes.fill_between(middle, shown - band, shown + band, color=kind.colour, alpha=0.2, linewidth=0)
    axes.set_title(literal(name))
    if axes.get_ylim()[1] > HIGHEST:
        lowest = float(np.nanmin([line.get_ydata() for line in axes.lines]))
        axes.set_ylim(lowest - 0.05 * (HIGHEST - lowest), HIGHEST)
    angle_axis(axes, horizontal=True)
    axes.set_xlabel(f"{label} / °")
    axes.set_ylabel("free energy / kT")
    axes.legend()
    return figure


@styled
def marginal_figure(marginals: Sequence[Marginal], *, columns: int = 5) -> Figure:
    """Small multiples: the density of each coordinate, over its support."""
    # A few coordinates get larger panels.
    across, down, columns = (3.0, 2.0, min(columns, 3)) if len(marginals) <= FEW else (1.75, 1.25, columns)
    columns = min(columns, len(marginals))
    width, height = across * columns, down * math.ceil(len(marginals) / columns) + 0.35
    figure = Figure(figsize=(width, height))
    for place, marginal in enumerate(marginals):
        row, column = divmod(place, columns)
        # Placed by hand: a layout that measures every label takes seconds for a hundred panels.
        left, bottom = across * column + 0.12, height - 0.08 - down * (row + 1)
        axes = figure.add_axes((left / width, bottom / height, (across - 0.24) / width, (down - 0.51) / height))
        cut = cut_where_empty(marginal)
        stairs(axes, cut.edges, cut.densities, width=1.1)
        axes.set_title(literal(cut.name), fontsize=6.5 if len(cut.name) > 14 else 7.5, fontweight="normal")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(labelsize=6.5, length=2, pad=1.5)
        axes.locator_params(axis="x", nbins=4)
        axes.set_ylim(bottom=0.0)
        axes.set_xlim(*support(cut))
    handles = [Line2D([], [], color=kind.colour, linestyle=kind.dashes) for kind, _ in marginals[0].densities.present()]
    labels = [kind.label for kind, _ in marginals[0].densities.present()]
    figure.legend(handles, labels, loc="upper left", ncols=3, fontsize=8, borderaxespad=0.2)
    return figure


def cut_where_empty(marginal: Marginal) -> Marginal:
    """A density over a full turn, cut where it is lowest, so that the ends of the axis split no peak."""
    edges = marginal.edges
    if not math.isclose(float(edges[-1] - edges[0]), 2 * math.pi, rel_tol=1e-6):
        return marginal
    total = np.sum([values for _, values in marginal.densities.present()], axis=0)
    # The middle of the emptiest stretch: densities smoothed over a tenth of the turn.
    width = max(1, len(total) // 10)
    smooth = np.convolve(np.concatenate([total, total[: width - 1]]), np.ones(width), mode="valid")
    start = (int(np.argmin(smooth)) + width // 2) % len(total)
    shift = start - len(total) if start > len(total) // 2 else start
    step = (edges[-1] - edges[0]) / len(total)
    rolled = {
        name: None if values is None else np.roll(values, -start)
        for name, values in ((name, getattr(marginal.densities, name)) for name in KINDS)
    }
    return Marginal(marginal.name, edges + shift * step, Triple(**rolled))


def support(marginal: Marginal) -> tuple[float, float]:
    """The range where a density is more than a thousandth of its peak, with a margin."""
    inside = np.any([values > 1e-3 * values.max() for _, values in marginal.densities.present()], axis=0)
    places = np.flatnonzero(inside)
    if len(places) == 0:
        return float(marginal.edges[0]), float(marginal.edges[-1])
    lower, upper = float(marginal.edges[places[0]]), float(marginal.edges[places[-1] + 1])
    margin = 0.08 * (upper - lower)
    return max(lower - margin, float(marginal.edges[0])), min(upper + margin, float(marginal.edges[-1]))
