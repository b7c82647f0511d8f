"""Findings of an evaluation in words: what is missing, not converged or cannot be trusted."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from boltzport.analysis.metrics import UNKNOWN_MASS
from boltzport.reporting import words
from boltzport.reporting.rundata import RunData


def verdicts(run: RunData) -> list[str]:
    """Reasons not to trust the results, which the page shows in red."""
    short = str(run.status.get("warning") or "")
    return [_sentence(verdict) for verdict in (short, *run.metrics.verdicts) if verdict]


def notices(run: RunData) -> list[str]:
    """Notices for the reader: an unfinished run, and warnings of the evaluation."""
    found = [words.state_in_words(run.status)]
    found += [_sentence(str(warning)) for warning in run.details.get("warnings") or [] if str(warning)]
    if (words.as_number(_record(run.details, "missing_mass").get("at_least")) or 0.0) > 0.0:
        found.append(missing_in_words(run))
    if _diagnostics(run).get("converged") is False:
        found.append(reference_in_words(run))
    return [notice for notice in found if notice]


def missing_in_words(run: RunData) -> str:
    """Missing mass of the model in words; empty if it was not checked."""
    missing = _record(run.details, "missing_mass")
    least = words.as_number(missing.get("at_least"))
    message = str(missing.get("message") or "").strip()
    if missing and not least and run.metrics.verdicts:
        return _sentence(UNKNOWN_MASS)
    if message:
        return _sentence(message)
    if least:
        return f"At least {words.percent(least)} of the probability is missing."
    return "" if least is None else "The available estimates show no missing mass."


class LogZRow(NamedTuple):
    """An estimate of log Z as text."""

    name: str
    value: str
    error: str


def log_z_rows(run: RunData) -> list[LogZRow]:
    """The estimates of log Z that the missing mass is computed from."""
    rows = []
    for entry in _record(run.details, "missing_mass").get("estimates") or []:
        error = words.as_number(entry.get("error"))
        value = words.number(words.as_number(entry.get("value")), resolution=error)
        rows.append(
            LogZRow(
                str(entry.get("name")), value, "" if error is None else f"± {words.number(error, resolution=error)}"
            )
        )
    return rows


def reference_in_words(run: RunData) -> str:
    """Whether the reference is converged; empty if there is none."""
    if not _record(run.details, "reference"):
        return ""
    details = _diagnostics(run)
    message = str(details.get("message") or "").strip()
    if "converged" in message:
        return _sentence(f"the reference is {message}" if message.startswith(("converged", "not")) else message)
    converged = details.get("converged")
    if converged is None:
        verdict = "It is not known whether the reference is converged"
    elif converged:
        verdict = "The reference is converged"
    else:
        verdict = "The reference is not converged: a comparison with it says little"
    return _sentence(f"{verdict}{'; ' + message if message else ''}")


class DiagnosticsRow(NamedTuple):
    """Convergence of one quantity of the reference, as text."""

    name: str
    rhat: str
    ess: str


def diagnostics_rows(run: RunData) -> list[DiagnosticsRow]:
    """R-hat and effective frames of each quantity of the reference, the worst first."""
    rhat, ess = (_record(_diagnostics(run), key) for key in ("rhat", "ess"))
    values = {name: words.as_number(rhat.get(name)) for name in {**rhat, **ess}}
    ordered = sorted(values, key=lambda name: -(values[name] or 0.0))
    return [
        DiagnosticsRow(name, words.number(values[name], digits=4), words.count(words.as_number(ess.get(name))))
        for name in ordered
    ]


def _diagnostics(run: RunData) -> Mapping[str, Any]:
    """Diagnostics of the reference, from their own record or from that of the reference."""
    reference = _record(run.details, "reference")
    return _record(reference, "diagnostics") or reference


def _record(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = record.get(key)
    return found if isinstance(found, Mapping) else {}


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
