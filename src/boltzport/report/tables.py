"""The figures of an evaluation as rows: what each is called, how it is written, and what it means."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from boltzport.report.words import Interval, as_number, count, duration, interval_of, k_in_words, number, percent


class Row(NamedTuple):
    """One figure, ready to be read.

    Attributes:
        name: What it is called.
        value: As text.
        interval: As text, empty if there is none.
        floor: What two perfect samples of this size would show, as text; empty if it is not known.
        meaning: One line.
    """

    name: str
    value: str
    interval: str
    floor: str
    meaning: str


class _Known(NamedTuple):
    name: str
    write: Callable[[float | None], str]
    meaning: str


_KNOWN = {
    "ess": _Known("effective sample size", percent, "share of the samples that the weights leave, top 0.01 % clipped"),
    "ess_unclipped": _Known("effective sample size, unclipped", percent, "the same with every weight as it is"),
    "pareto_k": _Known("Pareto k\u0302", number, "tail of the weights: below 0.5 good, below 0.7 usable"),
    "log_z": _Known("log Z", number, "log of the mean weight; minus it is the free energy in kT"),
    "elbo": _Known("ELBO", number, "mean log-weight, a lower bound of log Z"),
    "eubo": _Known("EUBO", number, "mean log-weight over the reference, an upper bound of log Z"),
    "nll": _Known("negative log-likelihood", number, "of the reference under the model, nats; lower is better"),
    "mean_reduced_energy": _Known("mean reduced energy", number, "reweighted, kT"),
    "samples": _Known("samples", count, "drawn for this evaluation"),
    "target_evaluations": _Known("energy evaluations", count, "spent on training"),
    "gradient_steps": _Known("gradient steps", count, "of the optimiser"),
    "wall_seconds": _Known("time", duration, "on the clock, training"),
    "kl": _Known("Ramachandran KL", number, "KL(reference || model) over (φ, ψ), nats"),
    "kl_reweighted": _Known("Ramachandran KL, reweighted", number, "the same with the weights"),
    "tv": _Known("Ramachandran total variation", percent, "share of probability in the wrong place"),
    "tv_reweighted": _Known("Ramachandran total variation, reweighted", percent, "the same with the weights"),
}
_SKIPPED = {"intervals", "noise_floor", "basins", "missing_mass", "reference", "coordinates", "temperatures"}
HEADLINE = ("ess", "log_z", "pareto_k", "kl_reweighted", "nll", "target_evaluations", "wall_seconds")
"""What the top of the page shows, where it is there."""


def headline(evaluation: Mapping[str, Any]) -> list[Row]:
    """The figures that matter most."""
    mean = _mean_pair(evaluation)
    rows = []
    for key in HEADLINE:
        record = evaluation if key in evaluation else mean
        value = as_number(record.get(key))
        if value is None:
            continue
        row = _row(record, key, value)
        if key == "log_z":
            error = as_number(evaluation.get("log_z_error"))
            row = row._replace(interval=row.interval or ("" if error is None else f"± {number(error, digits=2)}"))
        if key == "pareto_k":
            row = row._replace(meaning=k_in_words(value))
        rows.append(row)
    return rows


def figure_rows(evaluation: Mapping[str, Any], *, prefix: str = "") -> Iterator[Row]:
    """Every number of an evaluation, those in records within it as well."""
    for key, value in evaluation.items():
        if key in _SKIPPED or key.endswith(("_interval", "_error", "_noise_floor")):
            continue
        found = as_number(value)
        if found is not None:
            row = _row(evaluation, key, found)
            yield row._replace(name=f"{prefix}{row.name}") if key not in _KNOWN or prefix else row
        elif isinstance(value, Mapping):
            yield from figure_rows(value, prefix=f"{prefix}{_spoken(key)}, ")
        elif isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
            for place, entry in enumerate(value):
                name = entry.get("name", entry.get("pair", place + 1))
                yield from figure_rows(entry, prefix=f"{prefix}{name}, ")


def _mean_pair(evaluation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mean over the Ramachandran pairs, or the one pair there is."""
    pairs = [pair for pair in evaluation.get("ramachandran") or [] if isinstance(pair, Mapping)]
    named = [pair for pair in pairs if pair.get("name", pair.get("pair")) == "mean"]
    return (named or pairs[:1] or [{}])[0]


def _row(record: Mapping[str, Any], key: str, value: float) -> Row:
    known = _KNOWN.get(key, _Known(_spoken(key), number, ""))
    floors = record.get("noise_floor")
    floor = as_number(record.get(f"{key}_noise_floor", floors.get(key) if isinstance(floors, Mapping) else None))
    return Row(
        name=known.name,
        value=known.write(value),
        interval=_interval_text(interval_of(record, key), known.write),
        floor="" if floor is None else known.write(floor),
        meaning=known.meaning,
    )


def _interval_text(interval: Interval | None, write: Callable[[float | None], str]) -> str:
    return "" if interval is None else f"{write(interval.lower)} to {write(interval.upper)}"


def _spoken(key: str) -> str:
    return key.replace("_", " ")


class LedgerRow(NamedTuple):
    """Evaluations of one kind."""

    purpose: str
    evaluations: str
    gradients: str


def ledger_rows(ledger: Mapping[str, int]) -> list[LedgerRow]:
    """Evaluations of the target by purpose, and in all."""
    purposes = [key for key in ledger if not key.endswith("_gradients") and key != "failed"]
    rows = [
        LedgerRow(_spoken(purpose), count(ledger[purpose]), count(ledger.get(f"{purpose}_gradients", 0)))
        for purpose in purposes
    ]
    total = sum(ledger[purpose] for purpose in purposes)
    gradients = sum(ledger.get(f"{purpose}_gradients", 0) for purpose in purposes)
    return [*rows, LedgerRow("all", count(total), count(gradients))]
