"""The figures of an evaluation as rows: what each is called, how it is written, and what it means."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from boltzport.report.words import as_number, count, duration, interval_of, k_in_words, number, percent


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


class _Write(Protocol):
    def __call__(self, value: float | None, /, *, resolution: float | None = None) -> str: ...


class _Known(NamedTuple):
    name: str
    write: _Write
    meaning: str


_KNOWN: dict[str, _Known] = {
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
}
_PAIR: dict[str, _Known] = {
    "kl": _Known("Ramachandran KL", number, "from the reference to the model over (φ, ψ), nats"),
    "kl_reweighted": _Known("Ramachandran KL, reweighted", number, "from the reference to the weighted samples, nats"),
    "tv": _Known("Ramachandran total variation", percent, "share of probability in the wrong place"),
    "tv_reweighted": _Known("Ramachandran total variation, reweighted", percent, "the same of the weighted samples"),
}
"""Figures of a pair of torsions, which have other meanings elsewhere."""
_SKIPPED = {"intervals", "noise_floor", "basins", "missing_mass", "reference", "coordinates", "temperatures"}
HEADLINE = ("ess", "log_z", "pareto_k", "kl_reweighted", "nll", "target_evaluations", "wall_seconds")
"""What the top of the page shows, where it is there."""


def headline(evaluation: Mapping[str, Any]) -> list[Row]:
    """The figures that matter most."""
    mean = _mean_pair(evaluation)
    rows = []
    for key in HEADLINE:
        record, known = (mean, _PAIR[key]) if key in _PAIR else (evaluation, _KNOWN[key])
        value = as_number(record.get(key))
        if value is None:
            continue
        row = _row(record, key, value, known)
        rows.append(row._replace(meaning=k_in_words(value)) if key == "pareto_k" else row)
    return rows


def figure_rows(evaluation: Mapping[str, Any]) -> list[Row]:
    """Every number of an evaluation, those in records within it as well."""
    return list(_rows(evaluation, _KNOWN, prefix=""))


def _rows(record: Mapping[str, Any], known: Mapping[str, _Known], *, prefix: str) -> Iterator[Row]:
    for key, value in record.items():
        if key in _SKIPPED or key.endswith(("_interval", "_error", "_noise_floor")):
            continue
        inner = _PAIR if key == "ramachandran" else {}
        found = as_number(value)
        if found is not None:
            row = _row(record, key, found, known.get(key, _Known(_spoken(key), number, "")))
            yield row._replace(name=f"{prefix}{row.name}")
        elif isinstance(value, Mapping):
            yield from _rows(value, inner, prefix=f"{prefix}{_spoken(key)}, ")
        elif isinstance(value, list) and all(isinstance(entry, Mapping) for entry in value):
            for place, entry in enumerate(value):
                name = entry.get("name", entry.get("pair", place + 1))
                start = "" if inner else f"{_spoken(key)}, "
                yield from _rows(entry, inner, prefix=f"{prefix}{start}{name}, ")


def _mean_pair(evaluation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mean over the Ramachandran pairs, or the one pair there is."""
    pairs = [pair for pair in evaluation.get("ramachandran") or [] if isinstance(pair, Mapping)]
    named = [pair for pair in pairs if pair.get("name", pair.get("pair")) == "mean"]
    return (named or pairs[:1] or [{}])[0]


def _row(record: Mapping[str, Any], key: str, value: float, known: _Known) -> Row:
    floors = record.get("noise_floor")
    floor = as_number(record.get(f"{key}_noise_floor", floors.get(key) if isinstance(floors, Mapping) else None))
    interval, error = interval_of(record, key), as_number(record.get(f"{key}_error"))
    resolution = error if interval is None else interval.half_width
    if interval is not None:
        ends = [known.write(end, resolution=resolution) for end in interval]
        uncertainty = " to ".join(ends)
    else:
        uncertainty = "" if error is None else f"± {known.write(error, resolution=resolution)}"
    return Row(
        name=known.name,
        value=known.write(value, resolution=resolution),
        interval=uncertainty,
        floor="" if floor is None else known.write(floor, resolution=resolution),
        meaning=known.meaning,
    )


def _spoken(key: str) -> str:
    words = {"tica": "TICA", "wasserstein": "Wasserstein", "kl": "KL", "phi": "φ"}
    return " ".join(words.get(word, word) for word in key.split("_"))


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
