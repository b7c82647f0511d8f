"""Distributions over one coordinate: energies, weights, marginals, and the free energy along a torsion."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from boltzport.report.figures.style import INK, KINDS, REWEIGHTED, Marginal, Triple, angle_axis, grid, stairs


def energy_figure(edges: Float[np.ndarray, " edges"], densities: Triple, *, columns: int = 1) -> Figure:
    """Densities of the reduced energy."""
    figure, (axes,) = grid(1, columns=columns, width=6.4 if columns > 1 else 4.2, height=3.1)
    stairs(axes, edges, densities)
    axes.set_xlabel("reduced energy / kT")
    axes.set_ylabel("density")
    axes.set_ylim(bottom=0.0)
    axes.legend()
    return figure


def weights_figure(log_weights: Float[np.ndarray, " samples"], *, columns: int = 1) -> Figure:
    """Spread of the log-weights about the log of their mean, and where the weight itself lies."""
    finite = log_weights[np.isfinite(log_weights)]
    largest = finite.max()
    weights = np.exp(finite - largest)
    relative = finite - largest - np.log(weights.mean())
    low = max(float(np.quantile(relative, 0.002)), float(relative.max()) - 40.0)
    edges = np.linspace(low, float(relative.max()) + 1e-9, 81)
    figure, (axes,) = grid(1, columns=columns, width=6.4 if columns > 1 else 4.2, height=3.1)
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


def profile_figure(
    name: str,
    edges: Float[np.ndarray, " edges"],
    profiles: Triple,
    *,
    error: Float[np.ndarray, " bins"] | None = None,
    columns: int = 1,
) -> Figure:
    """Free energy along phi, with the error of the reweighted model, or of the model, as a band.

    Args:
        name: Of the residue.
        edges: Of the bins, radian.
        profiles: Free energies in kT.
        error: Standard error in kT.
        columns: More than one for a wide figure.
    """
    figure, (axes,) = grid(1, columns=columns, width=6.4 if columns > 1 else 4.2, height=3.1)
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
            axes.fill_between(middle, shown - error, shown + error, color=kind.colour, alpha=0.2, linewidth=0)
    axes.set_title(name)
    angle_axis(axes, horizontal=True)
    axes.set_xlabel("φ / °")
    axes.set_ylabel("free energy / kT")
    axes.legend()
    return figure


def marginal_figure(marginals: Sequence[Marginal], *, columns: int = 5) -> Figure:
    """Small multiples: the density of each coordinate."""
    figure, panels = grid(len(marginals), columns=columns, width=1.75, height=1.35)
    for axes, marginal in zip(panels, marginals, strict=True):
        stairs(axes, marginal.edges, marginal.densities, width=1.1)
        axes.set_title(marginal.name, fontsize=6.5 if len(marginal.name) > 14 else 7.5)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.tick_params(labelsize=6.5, length=2)
        axes.locator_params(axis="x", nbins=4)
        axes.set_ylim(bottom=0.0)
        axes.set_xlim(float(marginal.edges[0]), float(marginal.edges[-1]))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=3, fontsize=8)
    return figure
