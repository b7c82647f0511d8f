"""Several runs, one after another: finished runs are skipped, interrupted ones resumed, failures recorded."""

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from boltzport.core.errors import InputError, RunError
from boltzport.core.files import RunDirectory
from boltzport.core.parallel import Ranks, among, ranks
from boltzport.experiments.display import Whole
from boltzport.experiments.keeping import logging_to, read_status
from boltzport.experiments.launch import run_training
from boltzport.experiments.opening import load
from boltzport.experiments.plan import Plan, Planned

_LOG = logging.getLogger("boltzport")


class RunResult(NamedTuple):
    """How a run of a campaign ended.

    Attributes:
        name: Name of the run.
        path: Its directory.
        state: `done`, `skipped` if it was done before, or `failed`.
        message: Why it failed; empty otherwise.
    """

    name: str
    path: Path
    state: str
    message: str


@dataclass(frozen=True, kw_only=True)
class EvaluationEffort:
    """Size of the evaluation of each run.

    Attributes:
        samples: Number of samples of each flow.
        transport: Number of samples for the Wasserstein distances.
        exact: Number of exact samples of a toy to compare with.
    """

    samples: int = 100_000
    transport: int = 1000
    exact: int = 50_000


def run_campaign(
    plan: Plan, *, effort: EvaluationEffort | None = None, device: torch.device | None = None, silent: bool = False
) -> list[RunResult]:
    """Train and evaluate every run of a plan that is not done yet; the log of all runs is in `campaign.log`.

    Of several processes that torchrun started, each takes its part of the runs.

    Args:
        plan: The runs.
        effort: Size of the evaluations.
        device: Device of the flows; the processor by default.
        silent: Show no progress.

    Raises:
        InputError: The directory cannot be created.
        RunError: The user interrupted the campaign; the same plan resumes it.
    """
    effort = effort or EvaluationEffort()
    whole = Whole(math.ceil(len(plan.runs) / ranks().world), silent=silent)
    results = []
    folder = plan.runs[0].path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be created: {error.strerror}; choose another directory") from error
    present = ranks()
    name = "campaign.log" if present.leads else f"campaign.{present.rank}.log"
    with logging_to(folder / name) as log, whole.shown():
        log.begin()
        for planned in plan.runs[present.rank :: present.world]:
            whole.begin(planned.name)
            with among(Ranks()):
                results.append(_one(planned, plan.reference, effort, whole, device))
            whole.end(results[-1].state + (f": {results[-1].message}" if results[-1].message else ""))
    return _of_all_ranks(results, plan)


def _of_all_ranks(results: list[RunResult], plan: Plan) -> list[RunResult]:
    """The results of all ranks, in the order of the plan."""
    if ranks().alone:
        return results
    own = json.dumps([result._asdict() | {"path": str(result.path)} for result in results])
    records = [record for part in ranks().collected(own.encode()) for record in json.loads(part)]
    found = {record["name"]: RunResult(**record | {"path": Path(record["path"])}) for record in records}
    return [found[planned.name] for planned in plan.runs]


def _one(
    planned: Planned, reference: Path | None, effort: EvaluationEffort, whole: Whole, device: torch.device | None
) -> RunResult:
    """Train and evaluate one run, unless that is done."""
    directory = RunDirectory(planned.path)
    state = "skipped"
    try:
        model, status = None, read_status(directory)
        if status is None or status.state != "done":
            state = "done"
            model = run_training(
                planned.config, planned.path, resume=directory.config.is_file(), whole=whole, device=device
            )
            if model.status.state == "interrupted":
                raise KeyboardInterrupt
        if not _evaluated(directory, effort, reference, toy=planned.config.kind == "toy"):
            state = "done"
            with model or load(planned.path) as opened:
                if device is not None:
                    opened.flow.to(device)
                opened.evaluate(
                    n=effort.samples,
                    reference=reference,
                    transport_samples=effort.transport,
                    exact=effort.exact,
                    progress=whole.stage,
                )
                opened.save()
    except KeyboardInterrupt:
        raise RunError(f"interrupted in {planned.name}; the same command resumes it") from None
    except Exception as error:
        # A failure of one run must not stop hours of other runs.
        _LOG.exception("%s failed", planned.name)
        message = str(error) if isinstance(error, InputError | RunError) else f"{type(error).__name__}: {error}"
        return RunResult(planned.name, planned.path, "failed", " ".join(message.split()))
    return RunResult(planned.name, planned.path, state, "")


def _evaluated(directory: RunDirectory, effort: EvaluationEffort, reference: Path | None, *, toy: bool) -> bool:
    """Whether the present flow has been evaluated with at least as many samples and the same reference."""
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
    # This imports OpenMM, which toys do not need.
    from boltzport.ensembles.reference import read_provenance

    return bool(used.get("checksum") == read_provenance(reference).get("checksum"))
