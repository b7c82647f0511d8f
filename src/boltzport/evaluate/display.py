"""An evaluation as a table for the terminal."""

import math
from collections.abc import Iterator

from rich.table import Table

from boltzport.evaluate.evaluation import Evaluation
from boltzport.evaluate.populations import ABOVE, MOST
from boltzport.metrics import Interval


def evaluation_table(evaluation: Evaluation) -> Table:
    """Figures with their intervals and, where there is a reference, what noise alone makes of them."""
    against = evaluation.against
    floor = evaluation.noise_floor()
    table = Table(title=evaluation.missing.message, title_justify="left", box=None)
    for heading in ("figure", "value", "95 % interval", *(["noise floor"] if floor else [])):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    intervals = evaluation.intervals()
    for name, value in _figures(evaluation):
        found = intervals.get(name)
        row = [name.replace("_", " "), _number(value, found), _interval(found)]
        if floor:
            row.append(_number(floor.get(name)))
        table.add_row(*row)
    notes = evaluation.warnings()
    if against is not None and against.converged is False:
        notes.append("the reference is not converged by its own diagnostics")
    if (agreed := evaluation.agreement) is not None:
        typical, most = math.sqrt(agreed.mean_square), agreed.largest
        notes.append(
            f"{agreed.basins} basins have more than {ABOVE:.1%} of the reference; populations deviate from it by "
            f"{typical:.2g} errors (root mean square), {most:.2g} at most ({agreed.where})"
        )
    if against is not None and floor:
        notes.append(f"noise floor: two references, the second of {against.floor_samples} frames")
    table.caption, table.caption_justify = "\n".join(notes) or None, "left"
    return table


def _figures(evaluation: Evaluation) -> Iterator[tuple[str, float | None]]:
    importance = evaluation.importance
    yield "ess", importance.ess
    yield "ess_unclipped", importance.ess_unclipped
    if evaluation.halves is not None:
        yield "ess_torsions", evaluation.halves.ess.torsions
        yield "ess_stiff", evaluation.halves.ess.stiff
    yield "pareto_k", importance.pareto_k
    yield "log_z", importance.log_z
    yield "elbo", importance.elbo
    yield "mean_reduced_energy", evaluation.mean_reduced_energy.value
    if evaluation.against is not None:
        yield "nll", evaluation.against.bounds.nll
        yield "eubo", evaluation.against.bounds.eubo
        reweighted = dict(evaluation.against.reweighted.flat()) if evaluation.against.reweighted is not None else {}
        for name, figure in evaluation.against.plain.flat():
            yield name, figure.value
            if name in reweighted:
                yield f"{name}_reweighted", reweighted[name].value
    for basin in evaluation.basins[:MOST]:
        yield f"basins.{basin.name}.population", basin.population


def _number(value: float | None, interval: Interval | None = None) -> str:
    """A number with four digits, or with as many as its interval knows, where these are more.

    Example:
        >>> _number(-337.87123), _number(-337.87123, Interval(-337.8731, -337.8694)), _number(None)
        ('-337.9', '-337.8712', '-')
        >>> _number(12345.0, Interval(12344.0, 12346.0))
        '12345.0'
    """
    if value is None:
        return "-"
    short = f"{value:.4g}"
    width = 0.0 if interval is None else interval.upper - interval.lower
    if not (math.isfinite(width) and width > 0.0 and abs(value) >= 1.0):
        return short
    # Two digits of the interval's width.
    decimals = min(6, 1 - math.floor(math.log10(width)))
    known = f"{value:.{max(decimals, 0)}f}"
    return known if "e" in short or len(known) > len(short) else short


def _interval(found: Interval | None) -> str:
    return "" if found is None else f"{_number(found.lower, found)} to {_number(found.upper, found)}"
