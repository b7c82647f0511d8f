"""Several runs in one figure: the progress of each against its work, its annealing path, and its energies."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from boltzport.reporting.figures.style import FAINT, INK, REFERENCE, Triple, grid, literal, styled
from boltzport.reporting.figures.training import Steps, has, percent_tick, when_drawn

# Okabe and Ito (2008), the darker ones first; line styles also distinguish groups.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#5b6166")
ARRIVED = 0.01
"""Minimum effective sample size (fraction) of a run whose log Z sets the range of the axis."""
LEGEND_LINE = 0.2
"""Height of a line of a legend in inches."""
HEADROOM = 2.0
"""Highest density on the axis of the energies, relative to the reference: a few large weights make high spikes."""
Dashes = Literal["-", "--", "-."] | tuple[int, tuple[int, ...]]
DASHES: tuple[Dashes, ...] = ("-", "--", "-.", (0, (6, 1, 1, 1, 1, 1)))
"""Line styles; dotted lines are bounds and exact values."""


@dataclass(frozen=True, kw_only=True)
class RunCurve:
    """Logged values of one run, and results of its evaluation.

    Attributes:
        group: Name of the group in the legend; its runs differ only in their seed.
        place: Index of the group, which sets its colour.
        steps: Logged values by name.
        ess: Effective sample size of the evaluation; None if there is none.
        log_z: log Z of the evaluation; None if there is none.
        log_z_error: Standard error of `log_z`.
        energy_edges: Edges of the bins of the reduced energy in kT; None if there is no evaluation.
        energies: Densities of the reduced energy.
    """

    group: str
    place: int
    steps: Steps
    ess: float | None = None
    log_z: float | None = None
    log_z_error: float | None = None
    energy_edges: Float[np.ndarray, " edges"] | None = None
    energies: Triple | None = None

    @property
    def colour(self) -> str:
        """Colour of the group."""
        return COLOURS[self.place % len(COLOURS)]

    @property
    def dashes(self) -> Dashes:
        """Line style of the group, so that lines that coincide are all visible."""
        colour, again = self.place % len(COLOURS), self.place // len(COLOURS)
        return DASHES[(colour + again) % len(DASHES)]


_BY = {"evaluations": ", by evaluations", "gradient_steps": ", by gradient steps", "seconds": ", by time"}


@styled
def work_figure(curves: Sequence[RunCurve], *, exact_log_z: float | None = None, columns: int = 3) -> Figure | None:
    """ESS and log Z against target evaluations, gradient steps and time; None if nothing was logged.

    A dot at the end of a line is the result of the evaluation.

    Args:
        curves: The runs, one line each.
        exact_log_z: Exact log Z, if known.
        columns: Number of panels in a row.
    """
    hours = max((float(np.nanmax(run.steps["seconds"])) for run in curves if has(run.steps, "seconds")), default=0.0)
    unit, seconds = ("hours", 3600.0) if hours > 2 * 3600 else ("minutes", 60.0)
    axes_of = (
        ("evaluations", "energy evaluations", 1.0),
        ("gradient_steps", "gradient steps", 1.0),
        ("seconds", unit, seconds),
    )
    drawn = [
        (y, x, label, scale)
        for y in ("ess", "log_z")
        for x, label, scale in axes_of
        if any(has(run.steps, x) and has(run.steps, y) for run in curves)
    ]
    if not drawn:
        return None
    figure, axes = grid(len(drawn), columns=columns, width=3.6, height=2.6)
    for panel, (y, x, label, scale) in zip(axes, drawn, strict=True):
        for run in curves:
            if has(run.steps, x) and has(run.steps, y):
                _line(panel, run, when_drawn(run.steps, x) / scale, run.steps[y])
                found = run.ess if y == "ess" else run.log_z
                if found is not None:
                    error = run.log_z_error if y == "log_z" else None
                    panel.errorbar(
                        float(np.nanmax(run.steps[x])) / scale, found, yerr=error, fmt="o", markersize=4.5,
                        color=run.colour, markeredgecolor="white", markeredgewidth=0.6, elinewidth=1.0, zorder=5,
                    )  # fmt: skip
        panel.set_xlabel(label)
        panel.set_title(("ESS" if y == "ess" else "log Z") + _BY[x])
        if x == "evaluations":
            panel.set_xscale("log")
            _log_ticks(panel)
        if y == "ess":
            panel.yaxis.set_major_formatter(percent_tick)
            panel.set_ylim(bottom=0.0)
        else:
            _log_z_range(panel, curves, exact_log_z)
    _legend(figure, curves, columns, exact=exact_log_z is not None)
    return figure


@styled
def steps_figure(curves: Sequence[RunCurve], *, columns: int = 3) -> Figure | None:
    """Entropy, step ESS with its bound, gradient norm and the powers of the path against the step; None without a path.

    Args:
        curves: The runs, one line each.
        columns: Number of panels in a row.
    """
    panels: dict[str, tuple[str, Callable[[Axes], object] | None]] = {
        "entropy": ("Entropy of the flow / nats", None),
        "step_ess": ("ESS of one step (dotted: bound)", lambda panel: panel.set_ylim(0.0, 1.03)),
        "gradient_norm": ("Gradient norm", lambda panel: panel.set_yscale("log")),
        "alpha": ("Power α: inverse temperature", lambda panel: panel.set_ylim(-0.03, 1.08)),
        "beta": ("Power β: progress along the path", lambda panel: panel.set_ylim(-0.03, 1.08)),
    }
    if not any(has(run.steps, "step_ess") or has(run.steps, "alpha") for run in curves):
        return None
    drawn = [name for name in panels if any(has(run.steps, name) for run in curves)]
    figure, axes = grid(len(drawn), columns=columns, width=3.3, height=2.5)
    for panel, name in zip(axes, drawn, strict=True):
        title, finish = panels[name]
        for run in curves:
            if has(run.steps, name):
                _line(panel, run, run.steps["step"], run.steps[name])
            if name == "step_ess" and has(run.steps, "step_ess_bound"):
                panel.plot(run.steps["step"], run.steps["step_ess_bound"], color=run.colour, linestyle=":", linewidth=1)
        panel.set_title(literal(title))
        panel.set_xlabel("step")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        if name == "step_ess":
            panel.yaxis.set_major_formatter(percent_tick)
        if finish is not None:
            finish(panel)
    _legend(figure, curves, columns)
    return figure


@styled
def energies_figure(curves: Sequence[RunCurve], *, columns: int = 2) -> Figure | None:
    """Reduced energies of all runs, as drawn and reweighted, over those of the reference; None without an evaluation.

    Args:
        curves: The runs, one line each.
        columns: Number of panels in a row.
    """
    sets = {"model": "Energies as drawn", "reweighted": "Energies, reweighted"}
    with_energies = [
        (run, run.energy_edges, run.energies)
        for run in curves
        if run.energy_edges is not None and run.energies is not None
    ]
    drawn = [name for name in sets if any(getattr(found, name) is not None for _, _, found in with_energies)]
    if not drawn:
        return None
    known = [(edges, found.reference) for _, edges, found in with_energies if found.reference is not None]
    figure, axes = grid(len(drawn), columns=columns, width=4.2, height=3.0)
    for panel, name in zip(axes, drawn, strict=True):
        for edges, density in known[:1]:
            panel.stairs(density, edges, fill=True, color="#e3e6e8", zorder=0)
            panel.stairs(density, edges, baseline=None, color=REFERENCE, linestyle="--", linewidth=1.2, zorder=1)
        for run, edges, found in with_energies:
            if (density := getattr(found, name)) is not None:
                panel.stairs(
                    density, edges, baseline=None, color=run.colour, linestyle=run.dashes, linewidth=1.3, alpha=0.85
                )
        panel.set_title(literal(sets[name]))
        panel.set_xlim(min(edges[0] for _, edges, _ in with_energies), max(edges[-1] for _, edges, _ in with_energies))
        top = HEADROOM * max((float(density.max()) for _, density in known), default=math.inf)
        panel.set_ylim(0.0, min(top, panel.get_ylim()[1]))
        panel.set_xlabel("reduced energy / kT")
        panel.set_ylabel("density")
    _legend(figure, [run for run, _, _ in with_energies], columns, reference=bool(known))
    return figure


def _line(axes: Axes, run: RunCurve, x: np.ndarray, y: np.ndarray) -> None:
    # A single step is drawn as a dot, since it has no line.
    marker = "." if np.isfinite(y).sum() < 2 else ""
    axes.plot(x, y, color=run.colour, linestyle=run.dashes, marker=marker, linewidth=1.3, alpha=0.85)
    axes.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.6)
    axes.tick_params(colors=INK)


def _log_ticks(axes: Axes) -> None:
    """Ticks with SI prefixes (200 k, 1 M), as many as fit."""
    lower, upper = axes.get_xlim()
    decades = np.log10(upper / lower)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 3 else (1.0,)))
    axes.xaxis.set_major_formatter(EngFormatter(sep="\u202f"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _log_z_range(axes: Axes, curves: Sequence[RunCurve], exact: float | None) -> None:
    """Limit the axis to the second halves of the runs: the first flows, or a failed run, would flatten the rest."""
    logged = [run for run in curves if has(run.steps, "log_z")]
    arrived = [run for run in logged if _last_ess(run) >= ARRIVED] or logged
    late = [run.steps["log_z"][len(run.steps["log_z"]) // 2 :] for run in arrived]
    known = [value for value in (*(run.log_z for run in arrived), exact) if value is not None]
    values = np.concatenate([*late, np.array(known, float)])
    values = values[np.isfinite(values)]
    if exact is not None:
        axes.axhline(exact, color=REFERENCE, linewidth=0.9, linestyle=":")
    # Full numbers at the ticks, without an offset in the corner.
    axes.ticklabel_format(axis="y", useOffset=False)
    if len(values) > 1 and np.ptp(values) > 0:
        margin = 0.12 * float(np.ptp(values))
        axes.set_ylim(values.min() - margin, values.max() + margin)


def _last_ess(run: RunCurve) -> float:
    if run.ess is not None:
        return run.ess
    return float(run.steps["ess"][-1]) if has(run.steps, "ess") else 0.0


def _legend(
    figure: Figure, curves: Sequence[RunCurve], columns: int, *, exact: bool = False, reference: bool = False
) -> None:
    """One legend for all panels, above them."""
    groups = {run.group: run for run in curves}
    handles = [Line2D([], [], color=run.colour, linestyle=run.dashes) for run in groups.values()]
    labels = [literal(group) for group in groups]
    if exact:
        handles.append(Line2D([], [], color=REFERENCE, linestyle=":", linewidth=0.9))
        labels.append("exact log Z")
    if reference:
        handles.append(Line2D([], [], color=REFERENCE, linestyle="--", linewidth=1.2))
        labels.append("reference")
    # Names of groups are long, since they contain settings: only a few fit beside each other.
    longest = max(map(len, labels))
    beside = max(1, min(len(labels), int(columns * 52 / (longest + 8))))
    # Panels keep their size below a tall legend.
    figure.set_figheight(figure.get_figheight() + LEGEND_LINE * (math.ceil(len(labels) / beside) - 1))
    figure.legend(handles, labels, loc="outside upper left", ncols=beside)
