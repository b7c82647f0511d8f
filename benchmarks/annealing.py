"""What annealing gives a trained flow, by number of densities: effective samples per second and evaluation, and log Z.

One pilot plans all of them. Seconds are processor time; plain samples and annealed ones take turns. Run:
OMP_NUM_THREADS=1 python benchmarks/annealing.py RUN [--densities 1,2,4] [-n N] [--pilot P] [--seed S]
"""

import argparse
import json
import time

import numpy as np
import torch

from boltzport.analysis.metrics import smooth
from boltzport.core.seeds import derived
from boltzport.core.weights import effective_fraction, log_mean
from boltzport.ensembles import annealed, survey
from boltzport.ensembles.stream import weighted
from boltzport.experiments import load

TURNS = 4
"""Number of turns of each number of densities."""


def main() -> None:
    """Print one JSON object for each number of densities."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("--densities", default="1,2,4")
    parser.add_argument("-n", type=float, default=4096)
    parser.add_argument("--pilot", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model, each = load(arguments.run), int(arguments.n) // TURNS
    flow, target = model.flow, model.target.counted
    # The first call compiles.
    list(weighted(flow, target, 16, generator=derived(arguments.seed, "compile"), batch=16))
    before, start = target.ledger.total, time.process_time()
    course = survey(flow, target, generator=derived(arguments.seed, "pilot"), population=arguments.pilot)
    pilot = {"evaluations": target.ledger.total - before, "seconds": round(time.process_time() - start, 1)}
    print(json.dumps({"run": arguments.run, "length": course.length, "pilot": pilot}), flush=True)
    ladder = [0, *map(int, arguments.densities.split(","))]
    weights: dict[int, list[np.ndarray]] = {densities: [] for densities in ladder}
    seconds, evaluations = dict.fromkeys(ladder, 0.0), dict.fromkeys(ladder, 0)
    for turn in range(TURNS):
        for densities in ladder:
            generator = derived(arguments.seed, f"{densities} {turn}")
            # Plain samples are cheap, so there are more of them.
            size = each if densities else 8 * each
            before, start = target.ledger.total, time.process_time()
            if densities:
                parts = list(annealed(flow, target, size, course.plan(densities), generator=generator))
            else:
                parts = [part for part, _ in weighted(flow, target, size, generator=generator, batch=4096)]
            seconds[densities] += time.process_time() - start
            evaluations[densities] += target.ledger.total - before
            weights[densities] += [part.numbers.log_weights for part in parts]
    for densities in ladder:
        log_weights = np.concatenate(weights[densities])
        tensor = torch.from_numpy(log_weights)
        ess, log_z = effective_fraction(tensor), log_mean(tensor)
        effective = ess * len(log_weights)
        record = {
            "densities": densities,
            "samples": len(log_weights),
            "ess": round(ess, 4),
            "pareto_k": smooth(log_weights).pareto_k,
            "evaluations_per_sample": round(evaluations[densities] / len(log_weights), 2),
            "per_second": round(effective / seconds[densities], 1),
            "per_evaluation": round(effective / evaluations[densities], 5),
            "log_z": round(log_z.value, 4),
            "log_z_error": round(log_z.error, 4),
        }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
