"""Many runs, one after another: what is done is skipped, what was cut is resumed, what fails is recorded."""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from boltzport.errors import InputError, RunError
from boltzport.run.display import Whole
from boltzport.run.keeping import logging_to, read_status
from boltzport.run.launch import run_training
from boltzport.run.opening import load
from boltzport.run.plan import Plan, Planned
from boltzport.rundir import RunDirectory

_LOG = logging.getLogger("boltzport")


class RunResult(NamedTuple):
    """How a run of a campaign ended.

    Attributes:
        name: Name of the run.
        path: Its folder.
        state: `done`, `skipped` where it was done before, or `failed`.
        message: Why it failed; empty else.
    """

    name: str
    path: Path
    state: str
    message: str


@dataclass(frozen=True, kw_only=True)
class EvaluationEffort:
    """How the runs are evaluated.

    Attributes:
        samples: Number of samples of each flow.
        transport: Number of samples for the Wasserstein distances.
        exact: Samples of a toy to compare with.
    """

    samples: int = 100_000
    transport: int = 1000
    exact: int = 50_000


def run_campaign(plan: Plan, *, effort: EvaluationEffort | None = None, silent: bool = False) -> list[RunResult]:
    """Train and evaluate every run of a plan that is not there yet; `campaign.log` beside them has all that was logged.

    Args:
        plan: The runs.
        effort: How they are evaluated.
        silent: Show nothing.

    Raises:
        InputError: The folder cannot be made.
        RunError: The user has interrupted it; the same plan goes on where it was.
    """
    effort = effort or EvaluationEffort()
    whole = Whole(len(plan.runs), silent=silent)
    results = []
    folder = plan.runs[0].path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}; choose another folder with --out") from error
    with logging_to(folder / "campaign.log"), whole.shown():
        for planned in plan.runs:
            whole.begin(planned.name)
            results.append(_one(planned, plan.reference, effort, whole))
            whole.end(results[-1].state + (f": {results[-1].message}" if results[-1].message else ""))
    return results


def _one(planned: Planned, reference: Path | None, effort: EvaluationEffort, whole: Whole) -> RunResult:
    """Train and evaluate one run, as far as that is not done."""
    directory = RunDirectory(planned.path)
    state = "skipped"
    try:
        model, status = None, read_status(directory)
        if status is None or status.state != "done":
            state = "done"
            model = run_training(planned.config, planned.path, resume=directory.config.is_file(), whole=whole)
            if model.status.state == "interrupted":
                raise KeyboardInterrupt
        if not _evaluated(directory, effort, reference, toy=planned.config.kind == "toy"):
            state = "done"
            with model or load(planned.path) as opened:
                opened.evaluate(
                    n=effort.samples,
                    reference=reference,
                    transport_samples=effort.transport,
                    exact=effort.exact,
                    progress=whole.stage,
                )
                opened.save()
    except KeyboardInterrupt:
        raise RunError(f"interrupted in {planned.name}; the same command goes on from there") from None
    except Exception as error:
        # Whatever went wrong in one run, hours of others do not depend on it.
        _LOG.exception("%s failed", planned.name)
        message = str(error) if isinstance(error, InputError | RunError) else f"{type(error).__name__}: {error}"
        return RunResult(planned.name, planned.path, "failed", " ".join(message.split()))
    return RunResult(planned.name, planned.path, state, "")


def _evaluated(directory: RunDirectory, effort: EvaluationEffort, reference: Path | None, *, toy: bool) -> bool:
    """Whether there is an evaluation of the flow as it is, with as many samples and the reference as asked for."""
    if not directory.evaluation.is_file() or not directory.arrays.is_file():
        return False
    if directory.evaluation.stat().st_mtime_ns < directory.flow.stat().st_mtime_ns:
        return False
    record = json.loads(directory.evaluation.read_text())
    if record.get("samples", 0) < effort.samples:
        return False
    used = record.get("reference")
    if reference is None or used is None:
        return used is not None or not (toy or reference)
    # With it comes OpenMM, which toys do without.
    from boltzport.reference import read_provenance

    return bool(used.get("checksum") == read_provenance(reference).get("checksum"))
