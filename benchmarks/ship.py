"""Put a trained run into the package: `python benchmarks/ship.py RUN [NOTE]`.

Copies the files that `boltzport sample SYSTEM`, `compare` and `bench paper` need. The run must be evaluated. Weights
are stored in float16, which does not reduce the effective sample size (docs/performance.md).
"""

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from boltzport.core.files import RunDirectory, write_json
from boltzport.experiments import RunConfig
from boltzport.experiments.opening import SHIPPED
from boltzport.flows import load_flow

LEFT_OUT = ("coordinates", "seconds", "temperatures")
"""Parts of the evaluation that no table shows."""


def ship(path: Path, note: str = "") -> Path:
    """Copy a run into the package, without the paths of the machine that trained it.

    Args:
        path: Run directory.
        note: What the command alone does not reproduce, if anything.
    """
    run = RunDirectory(path)
    config = RunConfig.load(run.config)
    command = f"boltzport train {config.system} --preset {config.preset} --seed {config.seed}"
    there = RunDirectory(SHIPPED / config.system)
    there.path.mkdir(parents=True, exist_ok=True)
    replace(config, command=command).save(there.config)
    for name in ("coordinates", "structure", "status", "ledger", "metrics"):
        getattr(there, name).write_bytes(getattr(run, name).read_bytes())
    write_json(there.evaluation, _evaluation(run))
    provenance = {"command": command, "version": config.version, "torch": torch.__version__} | (
        {"note": note} if note else {}
    )
    load_flow(run.flow).save(there.flow, metadata={"provenance": json.dumps(provenance)}, stored=torch.float16)
    checksum = hashlib.sha256(there.flow.read_bytes()).hexdigest()
    write_json(there.path / "provenance.json", provenance | {"sha256": checksum})
    return there.path


def _evaluation(run: RunDirectory) -> dict[str, object]:
    found = json.loads(run.evaluation.read_text())
    reference = found.get("reference")
    if reference is not None:
        # The verdict of the diagnostics is enough, and paths mean nothing on another machine.
        verdict = {key: reference["diagnostics"].get(key) for key in ("converged", "message")}
        kept = ("system", "sampler", "settings", "seed", "proposal", "seconds", "interrupted", "checksum")
        found["reference"] = {key: reference.get(key) for key in kept} | {"diagnostics": verdict}
    return {key: value for key, value in found.items() if key not in LEFT_OUT}


if __name__ == "__main__":
    print(ship(Path(sys.argv[1]), " ".join(sys.argv[2:])))
