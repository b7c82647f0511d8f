"""Cost of uneven weights in a fit: gradient steps with weights down to e^-180, compared with equal weights.

Run: OMP_NUM_THREADS=1 python benchmarks/uneven_weights.py
"""

import statistics
import time

import torch
from torch import Tensor

from boltzport.core.layout import Layout, circle, interval
from boltzport.core.weights import normalised, without_negligible
from boltzport.flows import LAPTOP, CouplingFlow, Flow

POINTS, ROUNDS = 1000, 10


def step_seconds(flow: Flow, points: Tensor, weights: Tensor) -> float:
    """CPU time of one gradient in seconds."""
    begin = time.thread_time()
    (-(weights.float() * flow.log_prob(points)).mean()).backward()
    return time.thread_time() - begin


def main() -> None:
    """Print both ratios."""
    generator = torch.Generator().manual_seed(0)
    layout = Layout([circle()] * 5 + [interval(-1.0, 1.0)] * 55)
    flow = CouplingFlow(layout, LAPTOP, generator=generator)
    points = flow.sample(POINTS, generator=generator).detach()
    weights = normalised(-180.0 * torch.rand(POINTS, generator=generator).square()) * POINTS
    contenders = {
        "equal": torch.ones(POINTS),
        "uneven, as they are": weights,
        "uneven, without the negligible": without_negligible(weights, mean=1.0),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, values in contenders.items():
            times[name].append(step_seconds(flow, points, values))
    for name, spent in times.items():
        ratios = [a / b for a, b in zip(spent, times["equal"], strict=True)]
        print(f"{name}: {statistics.median(ratios):.2f} times the time of equal weights")


if __name__ == "__main__":
    main()
