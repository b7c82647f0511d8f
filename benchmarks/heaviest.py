"""The heaviest weights of a flow: which conformations, which half has too low a density there, and what removes them.

The same points are weighted by the flow and by mixtures of it with its broader version, whose densities are exact;
`torsions` is the log-weight of the torsions alone, from many draws of the stiff coordinates, and `stiff` the rest.
`around` has quantiles of the log-weights of points to which trajectories of the target lead from the heavy one: the
flow lacks a whole conformation if they stay large, and is thin at a point if they fall. The plain samples are those of
`boltzport evaluate RUN -n N --seed S`. Run:
OMP_NUM_THREADS=1 python benchmarks/heaviest.py RUN [-n N] [--top T] [--defensive 0.05,0.2] [--defended N]
"""

import argparse
import json
import math
import time
from collections import Counter

import numpy as np
import torch

from boltzport.analysis.metrics import basin_codes, basin_name, smooth
from boltzport.bench.observed import torsions_of
from boltzport.core.seeds import derived
from boltzport.core.weights import CLIPPED, clipped, effective_fraction, log_mean
from boltzport.ensembles.anneal import path_density
from boltzport.ensembles.survey import LEAPFROGS, widths
from boltzport.experiments import Model, load
from boltzport.experiments.drawing import seeded
from boltzport.flows import HalvedFlow, MixedFlow, defended, draw
from boltzport.mcmc import combine, hmc
from boltzport.mcmc import target as whole
from boltzport.targets import Purpose
from boltzport.targets.boltzmann import BoltzmannTarget

REDRAWN = 256
"""Number of draws of the stiff coordinates for each heavy point."""
BATCH = 50_000
"""Number of samples that an evaluation draws at once."""
CHAINS, MOVES, FIRST_STEP = 32, 40, 0.2
"""Number of chains from each heavy point, and of their trajectories; step size in units of the scales."""


def around(model: Model, points: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Log-weights of the last quarter of the trajectories from each point: (moves, points, chains)."""
    density, step_size, found = path_density(model.flow, model.target.counted), FIRST_STEP, []
    with torch.no_grad():
        state = hmc.init(points.repeat_interleave(CHAINS, 0), density)
        scales = widths(combine(state.parts, whole).gradient, model.flow)
        for move in range(MOVES):
            state, info = hmc.step(
                state,
                generator,
                density=density,
                scales=scales,
                step_size=step_size,
                leapfrogs=hmc.draw_leapfrogs(LEAPFROGS, generator),
            )
            step_size *= math.exp(0.5 * (float(info.acceptance.mean()) - 0.75))
            if move >= MOVES - MOVES // 4:
                found.append((state.parts.log_p - state.parts.log_base).reshape(len(points), CHAINS))
    return torch.stack(found)


def main() -> None:
    """Print a JSON object for each proposal, and then one for each of the heaviest points of the flow."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run")
    parser.add_argument("-n", type=float, default=1e6)
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--defensive", default="")
    parser.add_argument("--defended", type=float, default=2e5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    model = load(arguments.run)
    flow, counted = model.flow, model.target.counted
    target = counted.target
    assert isinstance(target, BoltzmannTarget)
    assert isinstance(flow, HalvedFlow)
    observed = torsions_of(target.molecule)

    def angles(points: torch.Tensor) -> np.ndarray:
        return target.internal(points)[:, list(observed.places)].double().numpy()

    shares = [0.0, *(float(share) for share in arguments.defensive.split(",") if share)]
    heavy = torch.empty(0)
    for share in shares:
        start, parts, log_weights = time.process_time(), [], []
        generator, n = seeded(arguments.seed), int(arguments.defended if share else arguments.n)
        proposal = defended(flow, share)
        for drawn in draw(proposal, counted, n, batch=BATCH, generator=generator, purpose=Purpose.EVALUATION):
            log_weights.append(drawn.log_weights)
            top = drawn.log_weights.topk(min(arguments.top, len(drawn.log_weights))).indices
            parts.append((drawn.log_weights[top], drawn.coordinates[top]))
        found = torch.cat(log_weights)
        log_z = log_mean(found)
        print(
            json.dumps(
                {
                    "defensive": share,
                    "samples": n,
                    "ess": effective_fraction(clipped(found, CLIPPED)),
                    "ess_unclipped": effective_fraction(found),
                    "pareto_k": smooth(found.numpy()).pareto_k,
                    "largest_weight": float((found.max() - torch.logsumexp(found, 0)).exp()),
                    "log_z": log_z.value,
                    "log_z_error": log_z.error,
                    "seconds": round(time.process_time() - start, 1),
                }
            ),
            flush=True,
        )
        largest = torch.cat([part[0] for part in parts]).topk(arguments.top)
        points = torch.cat([part[1] for part in parts])[largest.indices]
        if not share:
            heavy, known, total, scale = points, largest.values, torch.logsumexp(found, 0), log_z.value
        if observed.pairs:
            codes = basin_codes(angles(points)[:, np.array(observed.pairs)])
            names = Counter(basin_name(int(code), residues=len(observed.pairs)) for code in codes)
            print(json.dumps({"defensive": share, "basins_of_the_heaviest": dict(names.most_common())}), flush=True)
    near = around(model, heavy, derived(arguments.seed, "around")) - scale
    broad = [defended(flow, share) for share in shares[1:]]
    for place in range(len(heavy)):
        point = heavy[place : place + 1]
        with torch.no_grad():
            copies = point.repeat(REDRAWN, 1)
            stiff = flow.sample_stiff(copies, generator=derived(arguments.seed, f"stiff {place}"))
            again = counted.evaluate(stiff.coordinates, Purpose.EVALUATION)
            redrawn = again.log_p + again.log_volume - stiff.log_q.double() - flow.torsion_log_prob(copies).double()
            redrawn = torch.where(redrawn.isfinite(), redrawn, -math.inf)
            log_q = flow.log_prob(point)
            defences = {
                str(share): round(float(known[place] - scale - member.log_prob(point).double() + log_q.double()), 2)
                for share, member in zip(shares[1:], broad, strict=True)
                if isinstance(member, MixedFlow)
            }
        torsions = log_mean(redrawn).value - scale
        record = {
            "share": float((known[place] - total).exp()),
            "log_weight": round(float(known[place]) - scale, 2),
            "torsions": round(torsions, 2),
            "effective_redrawn": round(effective_fraction(redrawn) * REDRAWN, 1),
            "stiff": round(float(known[place]) - scale - torsions, 2),
            "around": near[:, place].quantile(torch.tensor([0.1, 0.5, 0.9]).double()).numpy().round(1).tolist(),
            "log_weight_defended": defences,
            "degrees": dict(zip(observed.names, np.degrees(angles(point)[0]).round().tolist(), strict=True)),
        }
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
