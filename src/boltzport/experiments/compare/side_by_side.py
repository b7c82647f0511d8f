"""The paper's figures of several methods: maps side by side, and all energies in one figure."""

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from boltzport.experiments.compare.compare import TargetComparison
from boltzport.experiments.compare.groups import Group, Member
from boltzport.reporting import Artist, MapRow, Picture, RunCurve, Triple, energies_figure, map_matrix, stems, triple

T = TypeVar("T")
DESK, PHONE = 5, 2
"""Number of runs beside each other, on a desktop and on a phone."""
HEADING = 20
"""Width of a heading in characters."""
TORUS = np.linspace(-180.0, 180.0, 101)
"""Edges of the bins of a Ramachandran map in degrees."""


class _Column(NamedTuple):
    """The run that represents a group."""

    head: str
    member: Member


def draw_side_by_side(
    target: TargetComparison, curves: Sequence[RunCurve], artist: Artist, *, prefix: str = ""
) -> list[Picture]:
    """Figures of all groups side by side, as far as at least two groups have what they show.

    Args:
        target: The runs.
        curves: The same runs as lines.
        artist: Draws the figures and writes the files.
        prefix: Prefix of the file names, for several targets.
    """
    drawn = (_ramachandrans(target, artist, prefix), _tica(target, artist, prefix), _energies(curves, artist, prefix))
    return [picture for pictures in drawn for picture in pictures]


def _ramachandrans(target: TargetComparison, artist: Artist, prefix: str) -> Iterator[Picture]:
    columns = _columns(target, "ramachandran_")
    arrays = [name for column in columns for name in column.member.data.arrays]
    residues = stems(arrays, r"ramachandran_(.+)_(?:model|reweighted)")
    rows = [_row(residue, columns, f"ramachandran_{residue}", (TORUS, TORUS)) for residue in residues]
    if len(columns) > 1:
        yield artist(
            f"{prefix}ramachandrans",
            lambda count: map_matrix(
                rows,
                [column.head for column in columns],
                labels=("φ / °", "ψ / °"),
                columns=count,
                ticks=(-120.0, 0.0, 120.0),
            ),
            alt=f"Ramachandran free energies of {', '.join(residues)}: the reference, and every group as drawn and "
            "reweighted.",
            caption="Free energy over φ and ψ of every residue, one run of each group, all maps on one scale: regions "
            "that are dark in the reference should be dark everywhere. White is above 10 kT or was not visited. A "
            "basin that is white after reweighting is a lost mode.",
            columns=(DESK, PHONE),
        )


def _tica(target: TargetComparison, artist: Artist, prefix: str) -> Iterator[Picture]:
    found = _columns(target, "tica_model")
    # The projection belongs to the reference: maps of different references have different axes.
    columns = [column for column in found if _same_projection(column.member, found[0].member)]
    if len(columns) < 2:
        return
    arrays = columns[0].member.data.arrays
    rows = [_row("TICA", columns, "tica", (arrays["tica_edges_0"], arrays["tica_edges_1"]))]
    others = [" ".join(column.head.split()) for column in found if column not in columns]
    yield artist(
        f"{prefix}ticas",
        lambda count: map_matrix(
            rows, [column.head for column in columns], labels=("first mode", "second mode"), columns=count
        ),
        alt="Free energies over the two slowest modes: the reference, and every group as drawn and reweighted.",
        caption="Free energy over the two slowest modes of the reference (TICA), one run of each group, all maps on "
        "one scale."
        + (f" Left out, since evaluated against another reference: {'; '.join(others)}." if others else ""),
        columns=(DESK, PHONE),
    )


def _energies(curves: Sequence[RunCurve], artist: Artist, prefix: str) -> Iterator[Picture]:
    if len({curve.place for curve in curves if curve.energies is not None}) > 1:
        yield artist(
            f"{prefix}energies",
            lambda count: _drawn(energies_figure(curves, columns=count)),
            alt="Reduced energies of every run in two panels, as drawn and reweighted, with the reference.",
            caption="Reduced energies of all runs, one line per run, one colour per group; grey is the reference. What "
            "lies beyond the axis is not drawn: a low curve has the rest of its samples at higher energies. Reweighted "
            "energies should coincide with the reference.",
            columns=(2, 1),
        )


def _drawn(figure: T | None) -> T:
    assert figure is not None
    return figure


def _columns(target: TargetComparison, name: str) -> list[_Column]:
    """The first evaluated run of each group that has such an array."""
    found = [(group, _first(group, name)) for group in target.groups]
    return [_Column(_head(group, member), member) for group, member in found if member is not None]


def _first(group: Group, name: str) -> Member | None:
    return next((each for each in group.members if any(array.startswith(name) for array in each.data.arrays)), None)


def _head(group: Group, member: Member) -> str:
    lines = textwrap.wrap(group.label, HEADING, max_lines=3, placeholder=" …")
    return "\n".join([*lines, f"seed {member.seed}"])


def _row(name: str, columns: Sequence[_Column], stem: str, edges: tuple[np.ndarray, np.ndarray]) -> MapRow:
    found = [triple(column.member.data.arrays, stem) for column in columns]
    reference = next((maps.reference for maps in found if maps is not None and maps.reference is not None), None)
    maps = tuple(None if each is None else Triple(model=each.model, reweighted=each.reweighted) for each in found)
    return MapRow(name, edges, maps, reference)


def _same_projection(one: Member, other: Member) -> bool:
    names = ("tica_edges_0", "tica_edges_1", "tica_reference")
    return all(name in member.data.arrays for name in names for member in (one, other)) and all(
        np.array_equal(one.data.arrays[name], other.data.arrays[name]) for name in names
    )
