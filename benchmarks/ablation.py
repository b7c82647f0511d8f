"""What each constraint and each addition brings, on a target with known answers.

    python benchmarks/ablation.py gmm-2d --seed 0

One row for each variant, all else equal: effective sample size, error of log Z, the worst error of a well's or mode's
probability (reweighted), gradient steps and evaluations. Takes five minutes on gmm-2d, half an hour on many-well-32.
"""

import argparse
import math
import time

import torch

from boltzport.flow import Flow
from boltzport.methods import CMT, CMTConfig, draw
from boltzport.run import Preset, recipe
from boltzport.run.settings import with_settings
from boltzport.targets import CountedTarget, ManyWell, Purpose, Toy, toy
from boltzport.weights import effective_fraction, log_mean

VARIANTS: dict[str, list[str]] = {
    "both, entropy bound from the budget": [],
    "both, entropy bound 1.0 by hand": ["entropy=1.0"],
    "trust region alone": ["entropy=inf"],
    "entropy alone": ["trust_region=inf"],
    "no constraint": ["trust_region=inf", "entropy=inf"],
    "constant multiplier 1": ["multiplier=1.0"],
    "fits stop when learned": ["learned=0.2"],
    "averaged weights (0.99)": ["average=0.99"],
    "two former buffers": ["reuse=2"],
}
SAMPLES = 100_000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("system", nargs="?", default="gmm-2d")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print("| variant | ESS | log Z - truth | worst mode | gradient steps | evaluations | seconds |")
    print("|---|---|---|---|---|---|---|")
    for name, settings in VARIANTS.items():
        print(f"| {name} | {row(toy(arguments.system), settings, arguments.seed)} |", flush=True)


def row(target: Toy, settings: list[str], seed: int) -> str:
    """Train one variant and describe it."""
    made = recipe(target.name, Preset.LAPTOP)
    method: CMTConfig = with_settings({"method": made.method}, settings)["method"]
    generator = torch.Generator().manual_seed(seed)
    counted = CountedTarget(target)
    transport = CMT(method)
    state = transport.init(Flow(target.layout, made.flow, generator=generator), counted)
    begin = time.monotonic()
    try:
        while not transport.finished(state):
            transport.step(state, generator=generator, progress=lambda *_: None)
    except RuntimeError as error:
        return f"stopped at step {state.step + 1}: {str(error).split(':')[1].strip()} | | | | | "
    seconds, evaluations = time.monotonic() - begin, counted.ledger["training"]
    found = draw(
        state.result(), counted, SAMPLES, generator=generator, progress=lambda *_: None, purpose=Purpose.EVALUATION
    ).buffer
    log_weights = found.log_p - found.log_q
    error = log_mean(log_weights).value - target.log_z
    wrong = worst(target, found.coordinates, log_weights)
    found_figures = f"{effective_fraction(log_weights):.1%} | {error:+.4f} | {wrong:.1%}"
    return f"{found_figures} | {state.gradient_steps} | {evaluations:.1e} | {seconds:.0f}"


def worst(target: Toy, points: torch.Tensor, log_weights: torch.Tensor) -> float:
    """Largest relative error of a mode's probability; for many wells, of one well of one pair."""
    weights = torch.softmax(log_weights, 0)
    if isinstance(target, ManyWell):
        left = (weights[:, None] * (points[:, 0::2] < 0)).sum(0)
        return float((left / (1.0 - target.right) - 1.0).abs().max())
    probability = torch.bincount(target.mode_of(points), weights=weights, minlength=len(target.modes))
    return float((probability / target.modes - 1.0).abs().max()) if len(target.modes) else math.nan


if __name__ == "__main__":
    main()
