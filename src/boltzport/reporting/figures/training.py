"""The training of a run: its annealing path, and its progress against work."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from boltzport.reporting.figures.style import FAINT, INK, MODEL, REFERENCE, REWEIGHTED, grid, styled

Steps = Mapping[str, Float[np.ndarray, " steps"]]


@styled
def path_figure(steps: Steps, *, temperature: float | None = None, columns: int = 3) -> Figure | None:
    """The annealing path: powers of target and prior, temperature, multipliers; None if the method has none.

    Args:
        steps: Logged values by name.
        temperature: Temperature of the target in K; without it, temperatures are relative to the target's.
        columns: Number of panels in a row.
    """
    if not (has(steps, "alpha") or has(steps, "trust_region_multiplier")):
        return None
    panels = [name for name, key in (("powers", "alpha"), ("temperature", "alpha")) if has(steps, key)]
    panels += ["multipliers"] if has(steps, "trust_region_multiplier") else []
    figure, axes = grid(len(panels), columns=columns, width=3.1, height=2.5)
    x = steps["step"]
    for panel, name in zip(axes, panels, strict=True):
        panel.set_xlabel("step")
        if name == "powers":
            _line(panel, x, steps["alpha"], REWEIGHTED, "α")
            if has(steps, "beta"):
                _line(panel, x, steps["beta"], MODEL, "β", dashes="--")
            panel.set_title("Powers along the path")
            panel.set_ylim(-0.03, 1.08)
            panel.legend(loc="best")
        elif name == "temperature":
            with np.errstate(divide="ignore"):
                values = (temperature or 1.0) / np.where(steps["alpha"] > 0, steps["alpha"], np.nan)
            _line(panel, x, values, REWEIGHTED, None)
            panel.axhline(temperature or 1.0, color=REFERENCE, linewidth=0.9, linestyle=":")
            panel.set_yscale("log")
            panel.set_title("Temperature 1/α" + (" / K" if temperature else ""))
        else:
            _line(panel, x, _positive(steps["trust_region_multiplier"]), REWEIGHTED, "λ, trust region")
            if has(steps, "entropy_multiplier"):
                _line(panel, x, _positive(steps["entropy_multiplier"]), MODEL, "η, entropy", dashes="--")
            panel.set_yscale("log")
            panel.set_title("Multipliers")
            panel.legend(loc="best")
    return figure


@styled
def progress_figure(steps: Steps, *, columns: int = 3) -> Figure | None:
    """Progress: ESS against evaluations and time, step ESS, log Z, entropy, loss; None if nothing was logged."""
    drawn = [
        (title, draw)
        for title, keys, draw in (
            ("ESS, by evaluations", ("ess", "evaluations"), _ess_by_evaluations),
            ("ESS, by time", ("ess", "seconds"), _ess_by_time),
            ("ESS of one step", ("step_ess",), _step_ess),
            ("log Z", ("log_z",), _log_z),
            ("Entropy of the flow / nats", ("entropy",), _entropy),
            ("Loss", ("loss",), _loss),
        )
        if all(has(steps, key) for key in keys)
    ]
    if not drawn:
        return None
    figure, axes = grid(len(drawn), columns=columns, width=3.1, height=2.5)
    for panel, (title, draw) in zip(axes, drawn, strict=True):
        draw(panel, steps)
        panel.set_title(title)
    return figure


def has(steps: Steps, name: str) -> bool:
    """Whether a quantity was logged."""
    return name in steps and bool(np.isfinite(steps[name]).any())


def when_drawn(steps: Steps, x: str) -> np.ndarray:
    """Work behind the flow whose points gave the metrics of each step; the work itself is logged at the end of a step.

    Some methods draw at the beginning of a step, some throughout, some at its end; old runs do not record it.
    """
    end: np.ndarray = steps[x]
    part = np.nan_to_num(steps["drawn"], nan=1.0) if "drawn" in steps else np.ones_like(end)
    begin = np.concatenate([[0.0], end[:-1]])
    return np.asarray(begin + part * (end - begin))


def percent_tick(value: float, _place: float | int | None) -> str:
    """Label of a tick in per cent."""
    return f"{100 * value:g}\u202f%"


def _ess_by_evaluations(axes: Axes, steps: Steps) -> None:
    most = float(np.nanmax(steps["evaluations"]))
    scale, unit = (1e6, "million ") if most >= 2e6 else ((1e3, "thousand ") if most >= 2e3 else (1.0, ""))
    _line(axes, when_drawn(steps, "evaluations") / scale, steps["ess"], REWEIGHTED, None)
    axes.set_xlabel(f"{unit}energy evaluations")
    axes.yaxis.set_major_formatter(percent_tick)
    axes.set_ylim(bottom=0.0)


def _ess_by_time(axes: Axes, steps: Steps) -> None:
    hours = np.nanmax(steps["seconds"]) > 2 * 3600
    _line(axes, when_drawn(steps, "seconds") / (3600 if hours else 60), steps["ess"], REWEIGHTED, None)
    axes.set_xlabel("hours" if hours else "minutes")
    axes.yaxis.set_major_formatter(percent_tick)
    axes.set_ylim(bottom=0.0)


def _step_ess(axes: Axes, steps: Steps) -> None:
    _line(axes, steps["step"], steps["step_ess"], REWEIGHTED, "reached")
    if has(steps, "step_ess_bound"):
        _line(axes, steps["step"], steps["step_ess_bound"], REFERENCE, "bound", dashes="--")
        axes.legend(loc="best")
    axes.set_xlabel("step")
    axes.yaxis.set_major_formatter(percent_tick)
    axes.set_ylim(0.0, 1.03)


def _log_z(axes: Axes, steps: Steps) -> None:
    _line(axes, steps["step"], steps["log_z"], REWEIGHTED, "importance sampling")
    shown = [steps["log_z"]]
    if has(steps, "log_z_path"):
        _line(axes, steps["step"], steps["log_z_path"], MODEL, "along the path", dashes="--")
    if has(steps, "elbo"):
        _line(axes, steps["step"], steps["elbo"], REFERENCE, "ELBO", dashes=":")
        shown.append(steps["elbo"])
    # The first flows are so far from the target that their estimates would flatten the later ones.
    late = np.concatenate([values[len(values) // 4 :] for values in shown])
    late = late[np.isfinite(late)]
    if len(late) > 1 and np.ptp(late) > 0:
        axes.set_ylim(late.min() - 0.15 * np.ptp(late), late.max() + 0.25 * np.ptp(late))
    axes.set_xlabel("step")
    axes.legend(loc="best")


def _entropy(axes: Axes, steps: Steps) -> None:
    _line(axes, steps["step"], steps["entropy"], REWEIGHTED, None)
    axes.set_xlabel("step")


def _loss(axes: Axes, steps: Steps) -> None:
    _line(axes, steps["step"], steps["loss"], REWEIGHTED, None)
    axes.set_xlabel("step")


def _line(axes: Axes, x: np.ndarray, y: np.ndarray, colour: str, label: str | None, *, dashes: str = "-") -> None:
    # A single step is drawn as a dot, since it has no line.
    marker = "o" if np.isfinite(y).sum() < 2 else ""
    axes.plot(x, y, color=colour, label=label, linestyle=dashes, marker=marker, markersize=4)
    axes.grid(axis="y", color=FAINT, linewidth=0.5, alpha=0.6)
    axes.tick_params(colors=INK)


def _positive(values: np.ndarray) -> np.ndarray:
    """Multipliers for a logarithmic axis: NaN where a constraint is not active."""
    return np.where(values > 0, values, np.nan)
