"""The figures of a comparison."""

import textwrap
from collections.abc import Iterator
from typing import TypeVar

import numpy as np

from boltzport.experiments.compare.compare import TargetComparison
from boltzport.experiments.compare.groups import Member
from boltzport.experiments.compare.side_by_side import draw_side_by_side
from boltzport.reporting import (
    KINDS,
    Artist,
    EnergyPanel,
    Panel,
    Picture,
    RunCurve,
    density_panels,
    energy_panels,
    ramachandran_panels,
    stems,
    steps_figure,
    triple,
    work_figure,
)

T = TypeVar("T")
DESK, PHONE = 4, 2
"""Number of maps in a row, on a desktop and on a phone."""
WIDTH = 2.5
PLANES = (
    ("density_2d", "the first two coordinates", ("first coordinate", "second coordinate")),
    ("tica", "the two slowest modes (TICA)", ("first mode", "second mode")),
)
"""Maps over two coordinates: name of the arrays, title and labels of the axes."""


def draw_target(target: TargetComparison, artist: Artist, *, prefix: str = "") -> list[Picture]:
    """All figures of one target.

    Args:
        target: The runs.
        artist: Draws the figures and writes the files.
        prefix: Prefix of the file names, for several targets.
    """
    curves, found = list(_curves(target)), []
    if work_figure(curves) is not None:
        found.append(
            artist(
                f"{prefix}work",
                lambda columns: _drawn(work_figure(curves, exact_log_z=target.exact_log_z, columns=columns)),
                alt="Effective sample size and log Z of every run against energy evaluations, gradient steps and time.",
                caption="Progress of each run against its work: one line per run, one colour per group. Lines are "
                "estimates during the training, plotted at the work behind that flow; dots are the results of the "
                "evaluation. The largest weights are clipped. A run whose log Z ends below that of others lacks mass "
                "that they have found, however large its effective sample size.",
                columns=(3, 1),
            )
        )
    if steps_figure(curves) is not None:
        found.append(
            artist(
                f"{prefix}steps",
                lambda columns: _drawn(steps_figure(curves, columns=columns)),
                alt="Entropy, step ESS with its bound, gradient norm, alpha and beta of every run against the step.",
                caption="The annealing path of each run. If the ESS of a step is below its bound, the flow could not "
                "follow the path, or no constraint is active. An entropy that falls at once indicates lost modes.",
            )
        )
    found += draw_side_by_side(target, curves, artist, prefix=prefix)
    drawn = (draw(target, artist, prefix) for draw in (_ramachandrans, _densities, _energies))
    return [*found, *(picture for pictures in drawn for picture in pictures)]


def _drawn(figure: T | None) -> T:
    assert figure is not None
    return figure


def _curves(target: TargetComparison) -> Iterator[RunCurve]:
    for place, group in enumerate(target.groups):
        for member in group.members:
            values = member.metrics.values if member.metrics.evaluated else {}
            error = member.data.metrics.value("log_z_error")
            yield RunCurve(
                group=group.label,
                place=place,
                steps=member.data.steps,
                ess=values.get("ess"),
                log_z=values.get("log_z"),
                log_z_error=error if isinstance(error, float) else None,
                energy_edges=member.data.arrays.get("energy_edges"),
                energies=triple(member.data.arrays, "energy"),
            )


def _panels(target: TargetComparison, stem: str, edges: str | None = None) -> list[Panel]:
    """Maps of the model and the reweighted model of every run that has them, and one of the reference."""
    found, reference = [], None
    for group in target.groups:
        for member in group.members:
            maps = triple(member.data.arrays, stem)
            if maps is None:
                continue
            for name in ("model", "reweighted"):
                values = getattr(maps, name)
                if values is not None:
                    title = f"{_wrapped(group.label)}\nseed {member.seed}, {name}"
                    found.append(_panel(title, name, values, member, edges))
            if reference is None and maps.reference is not None:
                reference = _panel("reference", "reference", maps.reference, member, edges)
    return [*found, *([reference] if reference is not None and found else [])]


def _panel(title: str, kind: str, values: np.ndarray, member: Member, edges: str | None) -> Panel:
    if edges is None:
        return Panel(title, KINDS[kind].colour, values)
    sides = (member.data.arrays[f"{edges}_0"], member.data.arrays[f"{edges}_1"])
    # Each evaluation chooses its own bins, so only densities can be compared.
    areas = np.diff(sides[0])[:, None] * np.diff(sides[1])[None]
    return Panel(title, KINDS[kind].colour, values / (areas * values.sum()), sides)


def _ramachandrans(target: TargetComparison, artist: Artist, prefix: str) -> Iterator[Picture]:
    arrays = [name for member in target.members for name in member.data.arrays]
    for residue in stems(arrays, r"ramachandran_(.+)_(?:model|reweighted)"):
        panels = _panels(target, f"ramachandran_{residue}")
        yield artist(
            f"{prefix}ramachandran_{residue}",
            lambda columns, panels=panels: ramachandran_panels(panels, columns=columns, width=WIDTH),  # type: ignore[misc]
            alt=f"Ramachandran free energies of residue {residue} of every run, as drawn and reweighted.",
            caption=f"Free energy of {residue} over φ and ψ, each run as drawn and reweighted, on one scale: regions "
            "that are dark in one panel should be dark in all. White is above 10 kT or was not visited.",
            columns=(DESK, PHONE),
        )


def _densities(target: TargetComparison, artist: Artist, prefix: str) -> Iterator[Picture]:
    for stem, title, labels in PLANES:
        panels = _panels(target, stem, f"{stem}_edges")
        if panels:
            yield artist(
                f"{prefix}{stem}",
                lambda columns, panels=panels, labels=labels: density_panels(  # type: ignore[misc]
                    panels, labels=labels, columns=columns, width=WIDTH, scale="density"
                ),
                alt=f"Densities over {title} of every run, as drawn and reweighted.",
                caption=f"Density over {title}, each run as drawn and reweighted, on one scale. A mode that one panel "
                "lacks is missing there.",
                columns=(DESK, PHONE),
            )


def _energies(target: TargetComparison, artist: Artist, prefix: str) -> Iterator[Picture]:
    panels = [
        EnergyPanel(f"{_wrapped(group.label)}\nseed {member.seed}", member.data.arrays["energy_edges"], densities)
        for group in target.groups
        for member in group.members
        if (densities := triple(member.data.arrays, "energy")) is not None and "energy_edges" in member.data.arrays
    ]
    if panels:
        yield artist(
            f"{prefix}energy",
            lambda columns: energy_panels(panels, columns=columns, width=WIDTH),
            alt="Histograms of the reduced energy of every run, as drawn and reweighted.",
            caption="Reduced energies of each run. Small errors of the atoms' positions give the model a tail to the "
            "right, which the weights correct. If the reweighted energies differ from the reference, mass is missing.",
            columns=(DESK, PHONE),
        )


def _wrapped(label: str) -> str:
    """A name, wrapped and truncated to three short lines."""
    return "\n".join(textwrap.wrap(label, 27, max_lines=3, placeholder=" …"))
