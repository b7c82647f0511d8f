"""Results as a table for the terminal."""

import io
import math
from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from boltzport.analysis.metrics.basins import ABOVE, MOST
from boltzport.analysis.metrics.catalogue import metric, parts_of
from boltzport.analysis.metrics.estimates import Estimate, written, written_interval
from boltzport.analysis.metrics.results import Results

ALWAYS = ("ess", "ess_unclipped", "pareto_k", "log_z", "elbo", "mean_reduced_energy")
"""Metrics that are listed even if they are not known."""
UNKNOWN_MASS = "whether mass is missing cannot be told from these weights"
"""What is said in place of `no missing mass` where the weights cannot be trusted."""


def results_table(results: Results) -> Table:
    """Table of metrics with their intervals and, if there is a reference, their noise floors."""
    floors = any(found.floor is not None for found in results.values())
    missing = dict(results.details.get("missing_mass") or {})
    if results.verdicts and not missing.get("at_least") and missing:
        missing["message"] = UNKNOWN_MASS
    lines = [Text(verdict, style="bold red") for verdict in results.verdicts]
    lines += [Text(str(missing["message"]))] if missing.get("message") else []
    table = Table(title=Text("\n").join(lines) if lines else None, title_justify="left", box=None)
    for heading in ("metric", "value", "95 % interval", *(["noise floor"] if floors else [])):
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for found in _listed(results):
        row = [found.name.replace("_", " "), written(found.value, found.interval), written_interval(found.interval)]
        table.add_row(*row, *([written(found.floor)] if floors else []))
    table.caption, table.caption_justify = "\n".join(notes(results)) or None, "left"
    return table


def as_text(results: Results, *, width: int = 120) -> str:
    """The table as plain text."""
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(results_table(results), highlight=False)
    return file.getvalue().rstrip()


def notes(results: Results) -> list[str]:
    """Notes on the metrics, one sentence each."""
    found = results.warnings
    reference = results.details.get("reference") or {}
    if (reference.get("diagnostics") or {}).get("converged") is False:
        found.append("the reference is not converged according to its own diagnostics")
    agreed = results.details.get("basin_agreement")
    if isinstance(agreed, Mapping):
        found.append(
            f"{agreed['basins']} basins have more than {ABOVE:.1%} of the reference; populations deviate from it by "
            f"{math.sqrt(agreed['mean_square']):.2g} errors (root mean square), {agreed['largest']:.2g} at most "
            f"({agreed['where']})"
        )
    frames = results.value("noise_floor_samples")
    if frames:
        found.append(f"noise floor: two references, the second of {frames:.0f} frames")
    return found


def _listed(results: Results) -> Iterator[Estimate]:
    """Metrics of the table, with the most populated basins at the end."""
    shown = [found for found in results.values() if metric(found.name).listed]
    basins = [found for found in shown if parts_of(found.name).group == "basins"]
    yield from (found for found in shown if found not in basins and (found.value is not None or found.name in ALWAYS))
    yield from basins[:MOST]
