"""Free energy, energy, entropy and heat capacity against temperature."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from boltzport.reporting.figures.style import REWEIGHTED, grid, styled

QUANTITIES = {
    "free_energy": ("free energy F", "kJ/mol"),
    "mean_energy": ("mean energy U", "kJ/mol"),
    "entropy": ("entropy S", "kJ/mol/K"),
    "heat_capacity": ("heat capacity C", "kJ/mol/K"),
}


@styled
def thermodynamics_figure(
    states: Sequence[Mapping[str, Any]], *, physical: bool = True, columns: int = 4
) -> Figure | None:
    """One panel for each quantity, with 95 % intervals; None if fewer than two temperatures have any.

    Args:
        states: Fields of the `ThermodynamicState` of each temperature; temperatures without values are not drawn.
        physical: Whether the units are K and kJ/mol; those of a target that is not a molecule are its own.
        columns: Number of panels in a row.
    """
    known = [state for state in states if state.get("free_energy") is not None]
    if len(known) < 2:
        return None
    figure, axes = grid(len(QUANTITIES), columns=columns, width=2.6, height=2.3)
    x = np.array([state["temperature"] for state in known], float)
    for panel, (name, (label, unit)) in zip(axes, QUANTITIES.items(), strict=True):
        values = np.array([np.nan if state.get(name) is None else state[name] for state in known], float)
        intervals = [(state.get("intervals") or {}).get(name) for state in known]
        ends = np.array([(np.nan, np.nan) if pair is None else tuple(pair) for pair in intervals], float)
        panel.fill_between(x, ends[:, 0], ends[:, 1], color=REWEIGHTED, alpha=0.25, linewidth=0)
        panel.plot(x, values, color=REWEIGHTED, marker="o", markersize=3)
        panel.set_title(f"{label} / {unit}" if physical else label)
        panel.set_xlabel("temperature / K" if physical else "temperature")
    return figure
