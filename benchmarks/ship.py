"""Put a trained run into the package: `python benchmarks/ship.py RUN`.

What `boltzport sample SYSTEM` needs is copied, the flow with its provenance; the run must be evaluated.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from boltzport.flow import load_flow
from boltzport.run import RunConfig
from boltzport.run.opening import SHIPPED
from boltzport.rundir import RunDirectory, write_json

FIGURES = ("samples", "ess", "ess_unclipped", "pareto_k", "log_z", "log_z_error", "elbo")
"""What is kept of the evaluation."""


def ship(path: Path) -> Path:
    """Copy a run into the package, without the paths of the machine that trained it."""
    run = RunDirectory(path)
    config = RunConfig.load(run.config)
    command = f"boltzport train {config.system} --preset {config.preset} --seed {config.seed}"
    there = RunDirectory(SHIPPED / config.system)
    there.path.mkdir(parents=True, exist_ok=True)
    replace(config, command=command).save(there.config)
    status = json.loads(run.status.read_text())
    evaluation = json.loads(run.evaluation.read_text())
    provenance = {
        "command": command,
        "version": config.version,
        "torch": torch.__version__,
        "gradient_steps": status["gradient_steps"],
        "seconds": status["seconds"],
        "ledger": json.loads(run.ledger.read_text()),
        "evaluation": {name: evaluation[name] for name in FIGURES},
    }
    write_json(there.path / "provenance.json", provenance)
    load_flow(run.flow).save(there.flow, metadata={"provenance": json.dumps(provenance)})
    for name in ("coordinates", "structure"):
        getattr(there, name).write_bytes(getattr(run, name).read_bytes())
    return there.path


if __name__ == "__main__":
    print(ship(Path(sys.argv[1])))
