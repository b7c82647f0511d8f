"""Time the first steps of a training on any number of processes.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py gmm-40
    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 benchmarks/scaling.py gmm-40

The first step compiles and is left out. Processor time, unlike the time on the wall, does not depend on what else the
machine does; a rank that waits for another uses none.
"""

import argparse
import json
import time

import torch

from boltzport.core.meeting import joined
from boltzport.core.parallel import ranks
from boltzport.experiments import request
from boltzport.experiments.build import build_method, open_target
from boltzport.experiments.joining import join, tell
from boltzport.flows import build_flow
from boltzport.targets import Ledger
from boltzport.training import Training


def quiet(_stage: str, _done: int, _total: int) -> None:
    """Report no progress."""


def measure(training: Training, steps: int) -> dict[str, float]:
    """Time of the steps after the first, and what they tell the other ranks."""
    rows = training.steps(quiet)
    next(rows)
    before, wall, processor = ranks().traffic, time.perf_counter(), time.process_time()
    gradient_steps, evaluations = training.state.gradient_steps, training.ledger.cost
    for _ in range(steps):
        next(rows)
    spent = ranks().traffic.minus(before)
    return {
        "wall": time.perf_counter() - wall,
        "processor": time.process_time() - processor,
        "talking_and_waiting": spent.seconds,
        "exchanges": spent.calls,
        "megabytes": spent.sent / 1e6,
        "gradient_steps": training.state.gradient_steps - gradient_steps,
        "evaluations": training.ledger.cost - evaluations,
    }


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    asked = parser.parse_args()
    with joined() as present:
        if present.leads:
            config = request(asked.system, preset=asked.preset, settings=asked.settings)
            ledger, generator = Ledger(), torch.Generator().manual_seed(0)
            target = open_target(config, ledger=ledger)
            flow = build_flow(target.counted.layout, config.flow, generator=generator)
            method = build_method(config, target, flow)
            tell(config, target, flow, ledger, saved=None, start=None, directory=None)
            training = Training(method, flow, target.counted, generator=generator, ledger=ledger)
            found = measure(training, asked.steps)
        else:
            with join() as other:
                found = measure(other.training, asked.steps)
        parts = [json.loads(part) for part in present.collected(json.dumps(found).encode())]
        if present.leads:
            print(json.dumps({"system": asked.system, "ranks": present.world, "each": parts}, indent=2))


if __name__ == "__main__":
    main()
