"""Evaluating a run, and writing what was found beside it."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from boltzport.errors import InputError
from boltzport.run.exact import ExactSamples, exact_samples
from boltzport.run.opening import OpenRun, open_run
from boltzport.rundir import RunDirectory, write_atomically, write_json

if TYPE_CHECKING:
    from boltzport.evaluate import Cost, Evaluation, LogZ, Progress


def evaluate_run(
    path: Path,
    *,
    n: int = 100_000,
    seed: int = 0,
    reference: Path | None = None,
    floor: Path | None = None,
    others: Sequence[Path] = (),
    transport_samples: int = 10_000,
    exact: int = 0,
    progress: "Progress | None" = None,
) -> "Evaluation":
    """Evaluate the flow of a run; writes `evaluation.json` and `evaluation.npz`.

    Args:
        path: The run directory.
        n: Samples to draw.
        seed: Of the samples; those of another seed than the training's are drawn in any case.
        reference: A reference ensemble to compare with.
        floor: A second one, for the noise floor.
        others: Other runs of the same target, whose log Z is compared.
        transport_samples: Samples of the Wasserstein distances.
        exact: Samples of a toy to compare with, where there is no other reference; 0 for none.
        progress: Is told how far it is.

    Raises:
        InputError: The folders are not what they should be.
    """
    from boltzport.evaluate import evaluate
    from boltzport.reference import load_dataset

    with open_run(path) as run:
        found = evaluate(
            run.flow,
            run.target.counted,
            n=n,
            # Far from the seeds that trainings have.
            generator=torch.Generator().manual_seed(2**31 + seed),
            reference=_exact(run, exact, seed) if reference is None else load_dataset(reference),
            floor=None if floor is None else load_dataset(floor),
            transport_samples=transport_samples,
            cost=_cost(run.directory),
            path_log_z=_path_log_z(run.directory),
            other_log_z=[_log_z(other, run.config.system) for other in others],
            progress=progress or _silent,
        )
        ledger = json.loads(run.directory.ledger.read_text()) if run.directory.ledger.is_file() else {}
        # Evaluations of former evaluations are forgotten: the files tell of the last.
        write_json(run.directory.ledger, ledger | {"evaluation": run.target.counted.ledger["evaluation"]})
        packed = io.BytesIO()
        np.savez_compressed(packed, **found.arrays)  # type: ignore[arg-type]
        write_atomically(run.directory.arrays, lambda file: file.write(packed.getvalue()))
        # The last file: where it is new, the other is as well.
        write_json(run.directory.evaluation, found.to_json())
        return found


def _exact(run: OpenRun, count: int, seed: int) -> ExactSamples | None:
    return None if run.target.toy is None or count == 0 else exact_samples(run.target.toy, count, seed=seed)


def _silent(_stage: str, _done: int, _total: int) -> None:
    pass


def _cost(directory: RunDirectory) -> "Cost | None":
    from boltzport.evaluate import Cost

    rows = list(directory.rows())
    if not rows:
        return None
    evaluations, steps, seconds = (rows[-1][key] for key in ("evaluations", "gradient_steps", "seconds"))
    assert evaluations is not None
    assert steps is not None
    return Cost(target_evaluations=int(evaluations), gradient_steps=int(steps), wall_seconds=seconds)


def _path_log_z(directory: RunDirectory) -> "LogZ | None":
    from boltzport.evaluate import LogZ

    values = [row["log_z_path"] for row in directory.rows() if row.get("log_z_path") is not None]
    return LogZ("the training's own estimate", float(values[-1] or 0.0), None) if values else None


def _log_z(path: Path, system: str) -> "LogZ":
    """The estimate of another run that was evaluated."""
    from boltzport.evaluate import LogZ
    from boltzport.run.config import RunConfig

    directory = RunDirectory(path)
    other = RunConfig.load(directory.config)
    if other.system != system:
        raise InputError(f"{path} is a run of {other.system}; expected another run of {system}")
    record = json.loads(directory.require(directory.evaluation, f"boltzport evaluate {path}").read_text())
    return LogZ(str(path), record["log_z"], record["log_z_error"])
