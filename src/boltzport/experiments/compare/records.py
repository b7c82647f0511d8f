"""A comparison as JSON and as CSV."""

import csv
import io

from boltzport.core.files import finite
from boltzport.experiments.compare.compare import Comparison, TargetComparison
from boltzport.experiments.compare.groups import Group, Member
from boltzport.experiments.compare.metrics import COMPARED
from boltzport.experiments.compare.rows import trained_on
from boltzport.experiments.compare.spread import Spread


def to_json(comparison: Comparison) -> dict[str, object]:
    """One JSON object; numbers that are not finite are null."""
    record = finite({"systems": [_target(target) for target in comparison.targets]})
    assert isinstance(record, dict)
    return record


def to_csv(comparison: Comparison) -> str:
    """One line for each group, with mean, standard error and number of runs of each metric."""
    named = dict.fromkeys(name for target in comparison.targets for name in target.columns)
    columns = [name for name in (*COMPARED, *(name for name in named if name not in COMPARED)) if name in named]
    head = ["system", "group", "method", "preset", "runs", "evaluated", "seeds", "trained_on"]
    head += ["missing_mass_at_least", "missing_mass_fired", "missing_mass_checked"]
    head += [f"{name}{suffix}" for name in columns for suffix in ("", "_error", "_runs")]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    for target in comparison.targets:
        for group, spreads in zip(target.groups, target.spreads, strict=True):
            missing = _missing(group)
            seeds = " ".join(str(member.seed) for member in group.members)
            line: list[object] = [target.name, group.label, group.method, group.preset, len(group.members)]
            line += [group.evaluated, seeds, trained_on(group), missing["at_least"], missing["fired"]]
            line.append(missing["checked"])
            for name in columns:
                line += spreads.get(name) or (None, None, 0)
            writer.writerow(line)
    return file.getvalue()


def _target(target: TargetComparison) -> dict[str, object]:
    return {
        "system": target.name,
        "exact_log_z": target.exact_log_z,
        "verdicts": target.verdicts(),
        "notices": target.notices(),
        "groups": [_group(group, found) for group, found in zip(target.groups, target.spreads, strict=True)],
        "runs": [_run(group, member) for group in target.groups for member in group.members],
    }


def _group(group: Group, spreads: dict[str, Spread]) -> dict[str, object]:
    return {
        "label": group.label,
        "method": group.method,
        "preset": group.preset,
        "settings": {name: _plain(value) for name, value in group.settings.items()},
        "seeds": [member.seed for member in group.members],
        "runs": len(group.members),
        "evaluated": group.evaluated,
        "source": "evaluation" if group.evaluated else "training",
        "forces": group.forces.value,
        "reference_samples": group.reference_samples,
        "missing_mass": _missing(group),
        "metrics": {name: found._asdict() for name, found in spreads.items()},
    }


def _run(group: Group, member: Member) -> dict[str, object]:
    return {
        "path": str(member.data.path),
        "group": group.label,
        "seed": member.seed,
        "state": member.data.status.get("state"),
        "evaluated": member.metrics.evaluated,
        "command": member.data.config.get("command"),
        "missing_mass": member.missing._asdict(),
        "metrics": dict(member.metrics.values),
    }


def _missing(group: Group) -> dict[str, object]:
    """The largest missing mass of any run, and in how many runs it was found and checked."""
    found = [member.missing.at_least for member in group.members if member.missing.at_least is not None]
    return {
        "at_least": max(found, default=None),
        "fired": sum(member.missing.fired for member in group.members),
        "checked": len(found),
    }


def _plain(value: object) -> object:
    """A value for JSON; an infinite setting becomes a string instead of null."""
    if isinstance(value, float) and value in (float("inf"), -float("inf")):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
