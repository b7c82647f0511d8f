"""Frames of a flow written to a file, as `Model.write` does it."""

from pathlib import Path

import torch

from boltzport.core.progress import Progress, silent
from boltzport.ensembles import Mode, Refine, WrittenEnsemble, check_file, open_stream, write_frames
from boltzport.flows import Flow
from boltzport.targets import CountedTarget


def write_ensemble(
    path: Path,
    flow: Flow,
    target: CountedTarget,
    n: int,
    *,
    generator: torch.Generator,
    mode: Mode = Mode.WEIGHTED,
    draws: int | None = None,
    refine: Refine | None = None,
    batch: int = 8192,
    progress: Progress = silent,
) -> WrittenEnsemble:
    check_file(path, target.target)
    options = {"generator": generator, "mode": mode, "draws": draws, "refine": refine, "batch": batch}
    stream = open_stream(flow, target, n, **options, progress=progress)
    return write_frames(path, stream, target.target, n, progress=progress)
