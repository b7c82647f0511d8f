"""The figures of an evaluation as rows: what each is called, how it is written, and what it means."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from boltzport.report.words import as_interval, as_number, count, duration, k_in_words, number, percent


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


class Write(Protocol):
    """A way to write numbers."""

    def __call__(self, value: float | None, /, *, resolution: float | None = None) -> str:
        """A number, to the decimals that are known of it."""


class KnownFigure(NamedTuple):
    """What there is to say of a figure, whatever its value.

    Attributes:
        name: What it is called.
        write: How it is written.
        meaning: One line.
    """

    name: str
    write: Write
    meaning: str


_KNOWN: dict[str, KnownFigure] = {
    "ess": KnownFigure("effective sample size", percent, "share of the samples that the weights leave"),
    "ess_unclipped": KnownFigure(
        "effective sample size, unclipped", percent, "the same without clipping the top 0.01 % of the weights"
    ),
    "ess_torsions": KnownFigure(
        "effective sample size, torsions",
        percent,
        "of the torsions alone, the stiff coordinates averaged over: low where populations of basins are off",
    ),
    "ess_stiff": KnownFigure(
        "effective sample size, stiff coordinates",
        percent,
        "of bonds, angles and other stiff motions given the torsions, averaged over the target's torsions",
    ),
    "pareto_k": KnownFigure("Pareto k\u0302", number, "tail of the weights: below 0.5 good, below 0.7 usable"),
    "log_z": KnownFigure("log Z", number, "log of the mean weight; minus it is the free energy in kT"),
    "log_z_smoothed": KnownFigure("log Z, smoothed", number, "the same with the tail of the weights smoothed"),
    "elbo": KnownFigure("ELBO", number, "mean log-weight, a lower bound of log Z"),
    "eubo": KnownFigure("EUBO", number, "mean log-weight over the reference, an upper bound of log Z"),
    "nll": KnownFigure("negative log-likelihood", number, "of the reference under the model, nats; lower is better"),
    "mean_reduced_energy": KnownFigure("mean reduced energy", number, "reweighted, kT"),
    "samples": KnownFigure("samples", count, "drawn for this evaluation"),
    "failed": KnownFigure("failed evaluations", count, "samples without an energy, which have no weight"),
    "outside": KnownFigure("reference outside", percent, "share of the reference outside the range of the flow"),
    "target_evaluations": KnownFigure("energy evaluations", count, "spent on training"),
    "gradient_evaluations": KnownFigure("force evaluations", count, "those among them with a gradient"),
    "gradient_steps": KnownFigure("gradient steps", count, "of the optimiser"),
    "wall_seconds": KnownFigure("time", duration, "on the clock, training"),
    "noise_floor_samples": KnownFigure("frames of the noise floor", count, "in the second reference"),
    "ramachandran.kl": KnownFigure("Ramachandran KL", number, "from the reference to the model over (φ, ψ), nats"),
    "ramachandran.tv": KnownFigure("Ramachandran total variation", percent, "share of probability in the wrong place"),
    "phi_profile.mae": KnownFigure("free energy along φ", number, "mean absolute error, kT"),
    "phi_profile.unvisited": KnownFigure("bins along φ not visited", count, "of those that the reference visits"),
    "density_2d.kl": KnownFigure("KL over two coordinates", number, "from the reference to the model, nats"),
    "density_2d.tv": KnownFigure("total variation over two coordinates", percent, "share of probability misplaced"),
    "tica.kl": KnownFigure("TICA KL", number, "from the reference to the model over the two slowest modes, nats"),
    "tica.lag": KnownFigure("TICA lag", count, "frames of the reference"),
    "wasserstein.torus": KnownFigure("torus W₂", number, "distance of the backbone torsions, radian"),
    "wasserstein.plane": KnownFigure("plane W₂", number, "distance over two coordinates"),
    "wasserstein.energy": KnownFigure("energy W₂", number, "distance of the reduced energies, kT"),
    "wasserstein.tica": KnownFigure("TICA W₂", number, "distance over the two slowest modes"),
    "basins.population": KnownFigure("population", percent, "share of the reweighted samples in this basin"),
    "wasserstein.samples": KnownFigure("samples of the W₂ distances", count, "on which their bias depends"),
}
_SKIPPED = {
    "intervals",
    "noise_floor",
    "basins",
    "basin_agreement",
    "missing_mass",
    "reference",
    "coordinates",
    "temperatures",
    "seconds",
    "warnings",
}
"""What is not a figure, or has a place of its own on the page."""
HEADLINE = ("ess", "log_z", "pareto_k", "kl_reweighted", "nll", "target_evaluations", "wall_seconds")
"""What the top of the page shows, where it is there; the divergence is the mean over the pairs of torsions."""


def headline(evaluation: Mapping[str, Any]) -> list[Row]:
    """The figures that matter most."""
    rows = []
    for key in HEADLINE:
        record, path = _mean_pair(evaluation) if key == "kl_reweighted" else (evaluation, ())
        value = as_number(record.get(key))
        if value is not None:
            row = _row(evaluation, (*path, key), value)
            rows.append(row._replace(meaning=k_in_words(value)) if key == "pareto_k" else row)
    return rows


def figure_rows(evaluation: Mapping[str, Any]) -> list[Row]:
    """Every number of an evaluation, those in records within it as well."""
    return list(_rows(evaluation, evaluation, ()))


def _rows(evaluation: Mapping[str, Any], record: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Row]:
    for key, value in record.items():
        if (key in _SKIPPED and not path) or key.endswith("_error"):
            continue
        found = as_number(value)
        if found is not None:
            row = _row(evaluation, (*path, key), found)
            # A figure of one residue says of which.
            yield row._replace(name=f"{path[1]}, {row.name}") if len(path) > 1 else row
        elif isinstance(value, Mapping):
            yield from _rows(evaluation, value, (*path, key))
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, Mapping):
                    yield from _rows(evaluation, entry, (*path, key, str(entry.get("name", ""))))


def _mean_pair(evaluation: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The mean over the Ramachandran pairs, and its name."""
    for pair in evaluation.get("ramachandran") or []:
        if isinstance(pair, Mapping) and pair.get("name") == "mean":
            return pair, ("ramachandran", "mean")
    return {}, ()


def _row(evaluation: Mapping[str, Any], path: tuple[str, ...], value: float) -> Row:
    known = known_figure(path)
    name = ".".join(path)
    floor = as_number((evaluation.get("noise_floor") or {}).get(name))
    interval = as_interval((evaluation.get("intervals") or {}).get(name))
    error = as_number(evaluation.get(f"{name}_error"))
    resolution = error if interval is None else interval.half_width
    if interval is not None:
        uncertainty = " to ".join(known.write(end, resolution=resolution) for end in interval)
    else:
        uncertainty = "" if error is None else f"± {known.write(error, resolution=resolution)}"
    return Row(
        name=known.name,
        value=known.write(value, resolution=resolution),
        interval=uncertainty,
        floor="" if floor is None else known.write(floor, resolution=resolution),
        meaning=known.meaning,
    )


def known_figure(path: tuple[str, ...]) -> KnownFigure:
    """What a figure is called: by its group and its key, whatever residue it is of."""
    key = ".".join((*path[:1], path[-1])) if len(path) > 1 else path[0]
    if key in _KNOWN:
        return _KNOWN[key]
    plain = _KNOWN.get(key.removesuffix("_reweighted"))
    if plain is not None:
        return plain._replace(name=f"{plain.name}, reweighted", meaning="the same of the weighted samples")
    return KnownFigure(_spoken(" ".join(key.split("."))), number, "")


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


def trained_on(ledger: Mapping[str, int]) -> str:
    """Whether the training used forces, in words."""
    if not ledger.get("training"):
        return ""
    gradients = ledger.get("training_gradients", 0)
    if not gradients:
        return "Trained on energies alone: no force was asked for."
    return f"Trained on energies and, at {count(gradients)} of the points, on forces."
