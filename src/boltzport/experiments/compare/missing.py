"""Missing mass of compared runs, from their own evaluations and from the log Z of the other runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from boltzport.analysis.metrics import LARGEST_K, UNKNOWN_MASS, LogZ, missing_mass, rounded_down
from boltzport.reporting import RunData, as_number


class Verdict(NamedTuple):
    """Missing mass of a run.

    Attributes:
        at_least: Lower bound of the missing probability; zero if none is shown, None if it was not checked.
        message: The finding in words.
    """

    at_least: float | None
    message: str

    @property
    def fired(self) -> bool:
        """Whether mass is shown to be missing."""
        return bool(self.at_least)


UNKNOWN = Verdict(None, "nothing to compare log Z with")
MISLED = Verdict(None, UNKNOWN_MASS)


def verdicts(runs: Sequence[RunData], exact: float | None) -> list[Verdict]:
    """Missing mass of each run of a target: the larger of the findings of its evaluation and of the other runs.

    A run whose log Z is below that of another lacks mass that the other has found. A run whose weights have a heavy
    tail, or that mislead, is not used to judge others.

    Args:
        runs: All runs of one target, evaluated or not.
        exact: Exact log Z, if known.
    """
    own = [_log_z(run) for run in runs]
    known = [] if exact is None else [LogZ("the exact target", exact, 0.0)]
    found = []
    for place, (run, estimate) in enumerate(zip(runs, own, strict=True)):
        others = [other for at, other in enumerate(own) if at != place and other is not None and _trusted(runs[at])]
        said = [_said(run.details)]
        if estimate is not None and (known or others):
            k = run.metrics.value("pareto_k")
            across = missing_mass(estimate, [*known, *others], pareto_k=k)
            said.append(Verdict(across.at_least, across.message))
        most = max(said, key=lambda verdict: -1.0 if verdict.at_least is None else verdict.at_least)
        found.append(MISLED if run.metrics.verdicts and not most.fired else most)
    return found


def _log_z(run: RunData) -> LogZ | None:
    """Log Z of the evaluation; that of a training step has no comparable error."""
    if run.results is None:
        return None
    value, error = (run.results.value(key) for key in ("log_z", "log_z_error"))
    return None if value is None or error is None else LogZ(str(run.path), value, error)


def _trusted(run: RunData) -> bool:
    k = None if run.results is None else run.results.value("pareto_k")
    return k is not None and k <= LARGEST_K and not run.metrics.verdicts


def _said(details: Mapping[str, Any]) -> Verdict:
    """Missing mass that the evaluation of a run found by itself."""
    record = details.get("missing_mass")
    least = as_number(record.get("at_least")) if isinstance(record, Mapping) else None
    if least is None or not isinstance(record, Mapping):
        return UNKNOWN
    others = [entry for entry in (record.get("estimates") or [])[1:] if entry.get("error") is not None]
    if not least and not others and record.get("uncovered") is None:
        return UNKNOWN
    return Verdict(least, str(record.get("message") or f"at least {rounded_down(least)} of the probability is missing"))
