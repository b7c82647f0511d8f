"""The metrics of an evaluation as rows of text."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from boltzport.analysis.metrics import Estimate, Results, Style, clipping_misleads, metric, parts_of
from boltzport.reporting.words import count, duration, k_in_words, number, percent

HEADLINE = (
    "ess",
    "log_z",
    "pareto_k",
    "ramachandran.mean.kl_reweighted",
    "nll",
    "target_evaluations",
    "wall_seconds",
)
"""Metrics at the top of the page, if they are known."""
ELSEWHERE = ("basins", "temperatures")
"""Groups of metrics that have their own table on the page."""


class Row(NamedTuple):
    """One metric as text.

    Attributes:
        name: Label of the metric.
        value: Value.
        interval: Interval; empty if there is none.
        floor: Noise floor, the value for two perfect samples of this size; empty if it is not known.
        meaning: Meaning of the metric in one line.
    """

    name: str
    value: str
    interval: str
    floor: str
    meaning: str


@runtime_checkable
class Write(Protocol):
    """A format of numbers."""

    def __call__(self, value: float | int | None, /, *, resolution: float | int | None = None) -> str:
        """Format a number with as many decimals as its resolution justifies."""


_WRITE: dict[Style, Write] = {
    Style.NUMBER: number,
    Style.PERCENT: percent,
    Style.COUNT: count,
    Style.DURATION: duration,
}


def writer(name: str) -> Write:
    """The number format of a metric."""
    return _WRITE[metric(name).style]


def headline(metrics: Results) -> list[Row]:
    """The most important metrics."""
    rows = []
    misled = bool(metrics.verdicts)
    # Of two effective sample sizes that are far apart, the smaller one is the model's.
    first = "ess_unclipped" if clipping_misleads(metrics) else "ess"
    for name in (first, *HEADLINE[1:]):
        value = metrics.value(name)
        if value is not None:
            row = _row(metrics, metrics[name])._replace(name=metric(name).label)
            if name == "pareto_k":
                row = row._replace(meaning="says nothing here: see the verdict" if misled else k_in_words(value))
            rows.append(row)
    return rows


def metric_rows(results: Results) -> list[Row]:
    """Every metric of an evaluation without its own table."""
    return [
        _row(results, found)
        for name, found in results.items()
        if found.value is not None and not name.endswith("_error") and parts_of(name).group not in ELSEWHERE
    ]


def _row(metrics: Results, found: Estimate) -> Row:
    known, write = metric(found.name), writer(found.name)
    error = metrics.value(f"{found.name}_error")
    resolution = error if found.interval is None else found.interval.half_width
    if found.interval is not None:
        uncertainty = " to ".join(write(end, resolution=resolution) for end in found.interval)
    else:
        uncertainty = "" if error is None else f"± {write(error, resolution=resolution)}"
    of = parts_of(found.name).of
    return Row(
        # A metric of one residue names the residue.
        name=f"{of}, {known.label}" if of else known.label,
        value=write(found.value, resolution=resolution),
        interval=uncertainty,
        floor="" if found.floor is None else write(found.floor, resolution=resolution),
        meaning=known.meaning,
    )


class LedgerRow(NamedTuple):
    """Evaluations of one purpose, as text."""

    purpose: str
    evaluations: str
    gradients: str


def ledger_rows(ledger: Mapping[str, int]) -> list[LedgerRow]:
    """Target evaluations by purpose, and their total."""
    purposes = [key for key in ledger if not key.endswith("_gradients") and key != "failed"]
    rows = [
        LedgerRow(purpose.replace("_", " "), count(ledger[purpose]), count(ledger.get(f"{purpose}_gradients", 0)))
        for purpose in purposes
    ]
    total = sum(ledger[purpose] for purpose in purposes)
    gradients = sum(ledger.get(f"{purpose}_gradients", 0) for purpose in purposes)
    return [*rows, LedgerRow("all", count(total), count(gradients))]


def trained_on(ledger: Mapping[str, int]) -> str:
    """Whether the training used forces, in words."""
    if not ledger.get("training"):
        return ""
    gradients = ledger.get("training_gradients", 0)
    if not gradients:
        return "Trained on energies alone, without forces."
    return f"Trained on energies, and on forces at {count(gradients)} points."
