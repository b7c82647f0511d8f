"""Maps of several runs side by side: a column for each run, two rows for each map, the reference in front."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator

from boltzport.reporting.figures.maps import BAR, CEILING, free_energy
from boltzport.reporting.figures.style import KINDS, Triple, literal, styled

SIDE, GAP = 1.5, 0.12
"""Side of a map, and gap between maps, in inches."""
HEAD, LINE = 0.12, 0.15
"""Gap above the maps, and height of a line of their headings, in inches."""
NAME, TICKS, LABEL, BELOW, SCALE = 0.3, 0.5, 0.4, 0.4, 0.85
"""Space for the name of a row, ticks beside a map, the word beside them, ticks below, and the scale, in inches."""
COLOURS = "viridis"
SETS = {"model": "as drawn", "reweighted": "reweighted"}
"""Words for the two rows of a map."""

Edges = tuple[Float[np.ndarray, " edges0"], Float[np.ndarray, " edges1"]]


class MapRow(NamedTuple):
    """One map of every run.

    Attributes:
        name: Name of the map, such as a residue.
        edges: Edges of the bins, the same for all runs.
        maps: Probabilities of the bins of each run, first coordinate first; None for a run without this map.
        reference: Probabilities of the reference; None if there is none.
    """

    name: str
    edges: Edges
    maps: tuple[Triple | None, ...]
    reference: Float[np.ndarray, "rows columns"] | None


class _Place(NamedTuple):
    """Where a map is: distance from the left and from the top in inches, and whether it has ticks on these sides."""

    left: float
    top: float
    ticks_left: bool
    ticks_below: bool


@styled
def map_matrix(
    rows: Sequence[MapRow],
    heads: Sequence[str],
    *,
    labels: tuple[str, str],
    columns: int,
    ticks: Sequence[float] | None = None,
) -> Figure:
    """Free energies over two coordinates, all maps on one scale.

    Args:
        rows: The maps: each has a row as drawn and a reweighted one, with the reference in front of both.
        heads: Heading of each run.
        labels: Labels of the two axes.
        columns: Maximum number of runs beside each other; further runs go below, beside the reference again.
        ticks: Ticks of both axes.
    """
    bands = [range(start, min(start + columns, len(heads))) for start in range(0, len(heads), columns)]
    sets = [key for key in SETS if any(found and getattr(found, key) is not None for r in rows for found in r.maps)]
    beside = SIDE + TICKS if any(row.reference is not None for row in rows) else 0.0
    first = NAME + beside + LABEL + TICKS
    lines = [max(heads[run].count("\n") + 1 for run in band) for band in bands]
    tops = [HEAD + LINE * count for count in lines]
    deep = len(rows) * (len(sets) * (SIDE + GAP) + GAP) + BELOW
    width = first + len(bands[0]) * (SIDE + GAP) + SCALE
    height = sum(tops) + len(bands) * deep
    figure = Figure(figsize=(width, height))
    norm = _common_scale(rows)

    def draw(values: np.ndarray, edges: Edges, place: _Place) -> Axes:
        box = (place.left / width, 1.0 - (place.top + SIDE) / height, SIDE / width, SIDE / height)
        axes = figure.add_axes(box)
        axes.pcolormesh(*edges, _shown(values).T, cmap=COLOURS, norm=norm, rasterized=True)
        _dress(axes, edges, place, labels, ticks)
        return axes

    top = 0.0
    for band, space in zip(bands, tops, strict=True):
        top += space
        for number, row in enumerate(rows):
            start = top + number * (len(sets) * (SIDE + GAP) + GAP)
            last_row = number == len(rows) - 1
            middle = start + (len(sets) * (SIDE + GAP) - GAP) / 2
            _text(figure, NAME / 2, middle, row.name, weight="bold", rotation=90)
            if row.reference is not None:
                # In the middle of its two rows, since it belongs to both.
                axes = draw(
                    row.reference, row.edges, _Place(NAME + TICKS, middle - SIDE / 2, ticks_left=True, ticks_below=True)
                )
                axes.set_title("reference", color=KINDS["reference"].colour, fontsize=8, loc="center")
            for line, key in enumerate(sets):
                level = start + line * (SIDE + GAP)
                colour = KINDS[key].colour
                _text(figure, first - TICKS - LABEL / 2, level + SIDE / 2, SETS[key], rotation=90, color=colour)
                for column, run in enumerate(band):
                    found = None if row.maps[run] is None else getattr(row.maps[run], key)
                    if found is not None:
                        below = last_row and line == len(sets) - 1
                        draw(
                            found,
                            row.edges,
                            _Place(first + column * (SIDE + GAP), level, ticks_left=column == 0, ticks_below=below),
                        )
        for column, run in enumerate(band):
            left = first + column * (SIDE + GAP) + SIDE / 2
            _text(figure, left, top - HEAD / 2, heads[run], va="bottom", weight="bold")
        top += deep
    long = min(2 * SIDE + GAP, deep - BELOW - GAP)
    bar = figure.add_axes(((width - SCALE + 0.15) / width, 1.0 - (tops[0] + long) / height, BAR / width, long / height))
    drawn = figure.colorbar(ScalarMappable(norm, COLOURS), cax=bar, label="free energy / kT")
    drawn.outline.set_visible(False)
    return figure


def _common_scale(rows: Sequence[MapRow]) -> Normalize:
    """Colours from zero to the highest free energy that was sampled anywhere."""
    maps = [values for row in rows for found in row.maps if found for _, values in found.present()]
    highest = [float(np.nanmax(_shown(values), initial=0.0)) for values in maps]
    highest += [float(np.nanmax(_shown(row.reference), initial=0.0)) for row in rows if row.reference is not None]
    return Normalize(0.0, min(CEILING, max(1.0, *highest)))


def _shown(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
    energies = free_energy(values)
    return np.where(energies <= CEILING, energies, np.nan)


def _dress(axes: Axes, edges: Edges, place: _Place, labels: tuple[str, str], ticks: Sequence[float] | None) -> None:
    """Set limits, ticks and labels of a map."""
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(4) if ticks is None else FixedLocator(list(ticks)))
        axis.labelpad = 1.0
        axis.label.set_fontsize(8)
    axes.tick_params(labelsize=7, length=2, pad=1.5, labelbottom=place.ticks_below, labelleft=place.ticks_left)
    if place.ticks_below:
        axes.set_xlabel(labels[0])
    if place.ticks_left:
        axes.set_ylabel(labels[1])


def _text(figure: Figure, left: float, top: float, text: str, *, va: str = "center", **style: Any) -> None:
    """Write a text at a place in inches."""
    width, height = figure.get_size_inches()
    figure.text(left / width, 1.0 - top / height, literal(text), ha="center", va=va, fontsize=8, **style)
