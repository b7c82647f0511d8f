"""Tables and files of a race."""

from pathlib import Path

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from boltzport.bench.race import Race, Standing
from boltzport.core.errors import InputError
from boltzport.core.files import write_json
from boltzport.reporting import Artist, ErrorCurve, errors_figure

CAPTION = (
    "Mean absolute error of the free energy profile along the slowest torsion, over independent runs, against all that "
    "a run costs. The bands are one standard deviation of the runs. Bins that a run did not visit count with the "
    "highest free energy that counts. Dotted: continued with one over the square root of the work, for samplers that "
    "found every basin."
)


def race_table(race: Race) -> RenderableType:
    """Tables of the contenders, and after how many samples the trainings have paid for themselves."""
    first = Table(box=None)
    heads = (
        "",
        "effective",
        "formula",
        "per second",
        "per 1e6 evaluations",
        "mixing time",
        "setup",
        "profile error",
        "bias",
        "missed",
    )
    for place, head in enumerate(heads):
        first.add_column(Text(head, style="bold"), justify="right" if place else "left")
    for standing in race.standings:
        first.add_row(*map(Text, _row(standing)))
    lines = [
        f"{race.system}: slowest torsion {race.truth.torsion}, barrier {race.truth.barrier:.1f} kT; truth from "
        f"{race.truth.samples} {race.truth.source}, its profile is known to {race.truth_error:.2g} kT.",
        "Per run: effective independent samples, by the errors of independent runs and by the usual formula. Rates are "
        "of processor time on one thread, without setup and training. The mixing time is that of the slowest torsion "
        "along a chain, in evaluations; it is a lower bound (>) where basins were missed or chains disagree.",
        *race.notes,
        *_payback(race),
    ]
    return Group(first, Text("\n".join(lines)))


def write_race(race: Race, folder: Path) -> Path:
    """Write `sampling.json`, and the figure `profile-error` as SVG and PNG; returns the path of the PNG.

    Raises:
        InputError: The directory cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}; choose another directory") from error
    write_json(folder / "sampling.json", race.to_json())
    figure = errors_figure(
        [_curve(standing) for standing in race.standings],
        title=f"{race.system}, {race.truth.torsion}",
        floor=race.truth_error,
    )
    Artist(folder).single("profile-error", figure, alt="Error of the free energy profile.", caption=CAPTION)
    return folder / "profile-error.png"


def _curve(standing: Standing) -> ErrorCurve:
    columns = {name: np.array([getattr(point, name) for point in standing.curve]) for name in standing.curve[0]._fields}
    return ErrorCurve(
        name=standing.name,
        evaluations=columns["evaluations"],
        seconds=columns["seconds"],
        before=(standing.before.evaluations, standing.before.seconds),
        errors=columns["error"],
        spread=columns["spread"],
        settled=standing.missed == 0,
    )


def _row(standing: Standing) -> tuple[str, ...]:
    return (
        standing.name,
        f"{standing.effective:.3g} ± {standing.effective_error:.0%}",
        "" if standing.formula is None else f"{standing.formula:.3g}",
        f"{standing.per_second:.3g}",
        f"{1e6 * standing.per_evaluation:.3g}",
        _mixing(standing),
        f"{standing.setup.evaluations:.2g}, {standing.setup.seconds:.2g} s",
        f"{standing.curve[-1].error:.3g} kT",
        f"{standing.bias:.0%}",
        str(standing.missed),
    )


def _mixing(standing: Standing) -> str:
    if standing.mixing is None:
        return ""
    return f"{'> ' if standing.stuck else ''}{standing.mixing.evaluations:.2g}"


def _payback(race: Race) -> list[str]:
    """A line for each flow against each contender without one."""
    lines = []
    others = [standing for standing in race.standings if not standing.training.evaluations]
    for flow in (standing for standing in race.standings if standing.training.evaluations):
        said = []
        for other in others:
            found = race.payback(flow, other)
            said.append(f"{other.name} {_samples(found.evaluations)} by evaluations, {_samples(found.seconds)} by time")
        if said:
            lines.append(f"{flow.name} has paid for its training after so many effective samples: {'; '.join(said)}.")
    return lines


def _samples(number: float | None) -> str:
    return "never" if number is None else f"{number:.2g}"
