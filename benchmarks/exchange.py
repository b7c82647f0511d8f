"""Time a gradient step with its gradient in one flat buffer, in buckets of several sizes, and without an exchange.

    OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 benchmarks/exchange.py gmm-40 --batch 500

The variants alternate, so that other programs disturb them alike. `batch` is that of each process. Processor time is
what the exchange costs; only the wall shows what a backward pass hides of it, on free cores.
"""

import argparse
import json
import time

import torch
from torch import Tensor, nn

from boltzport.core.meeting import joined
from boltzport.core.parallel import ranks
from boltzport.experiments import request
from boltzport.experiments.build import open_target
from boltzport.flows import build_flow
from boltzport.training import Schedule
from boltzport.training.buckets import Buckets
from boltzport.training.optimiser import Optimiser, OptimiserConfig

SIZES = (2**40, 2**20, 2**19, 2**18, 2**17, 2**16)
CONFIG = OptimiserConfig(
    learning_rate=1e-4, warmup=0, schedule=Schedule.CONSTANT, weight_decay=0.0, max_gradient_norm=1e9, average=0.0
)


class Flat:
    """One exchange after the backward pass, or none."""

    def __init__(self, parameters: list[nn.Parameter], *, exchange: bool) -> None:
        self._parameters, self._exchange = parameters, exchange

    def backward(self, loss: Tensor) -> None:
        """Do the backward pass and the exchange."""
        loss.backward()
        if self._exchange:
            ranks().average([parameter.grad for parameter in self._parameters if parameter.grad is not None])


def main() -> None:
    """Print one JSON object: milliseconds of a gradient step, on the processor and on the wall."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=20)
    asked = parser.parse_args()
    with joined() as present:
        config, generator = request(asked.system, preset="laptop"), torch.Generator().manual_seed(0)
        flow = build_flow(open_target(config).counted.layout, config.flow, generator=generator)
        points, parameters = flow.sample(asked.batch, generator=generator).detach(), list(flow.parameters())
        ways = {"none": Flat(parameters, exchange=False), "flat": Flat(parameters, exchange=True)}
        ways |= {f"buckets of {size // 1024} kB": Buckets(parameters, size=size) for size in SIZES}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
        for _ in range(asked.rounds):
            for name, way in ways.items():
                optimiser = Optimiser(parameters, CONFIG)
                optimiser._buckets = way
                for step in range(asked.steps + 2):
                    if step == 2:
                        begin = time.process_time(), time.perf_counter()
                    optimiser.step(-flow.log_prob(points).mean(), progress=0.0)
                spent = time.process_time() - begin[0], time.perf_counter() - begin[1]
                found[name].append((1e3 * spent[0] / asked.steps, 1e3 * spent[1] / asked.steps))
        if present.leads:
            means = {name: torch.tensor(times).mean(0).tolist() for name, times in found.items()}
            size = sum(parameter.nbytes for parameter in parameters)
            print(json.dumps({"bytes": size, "processor_and_wall_ms": means}, indent=2))


if __name__ == "__main__":
    main()
