"""Speed of a flow, relative to its own matrix products and to the same flow with other libraries' splines."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise

import torch
from torch import Tensor

from boltzport.bench.molecular import molecular_network
from boltzport.bench.peers import PeerFlow, peers
from boltzport.bench.timed import NetworkResult, Product, gradient_step, milliseconds, products
from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.stopwatch import side_by_side
from boltzport.flows.couplings.config import LAPTOP, PAPER, CouplingConfig
from boltzport.flows.couplings.flow import CouplingFlow
from boltzport.flows.molecular.config import MolecularConfig

INTERVALS, CIRCLES = 41, 19
"""Numbers of coordinates of the dipeptide in the paper's layout."""


@dataclass(frozen=True, kw_only=True)
class FlowBenchmark:
    """Timings of the networks, and the conditions of the measurement.

    Attributes:
        batch: Number of points per step.
        threads: Number of torch threads.
        dimensions: Number of coordinates of the coupling flows; the molecular flow has those of the tetrapeptide.
        cold_start_s: Seconds from the start of a process to the end of its first step, without compiled kernels.
        warm_start_s: Same as `cold_start_s`, but with kernels that an earlier process has compiled.
        networks: Timings by name.
    """

    batch: int
    threads: int
    dimensions: int
    cold_start_s: float
    warm_start_s: float
    networks: dict[str, NetworkResult]

    def to_dict(self) -> dict[str, object]:
        """Plain numbers, for JSON."""
        return asdict(self)


def run(*, batch: int = 1000, rounds: int = 10, progress: Callable[[str], None] = lambda _: None) -> FlowBenchmark:
    """Measure the paper's and the laptop's coupling flows and the molecular one; all candidates take turns.

    Args:
        batch: Number of points per step.
        rounds: Number of timings of each candidate.
        progress: Callback that receives the name of each measurement.

    Raises:
        InputError: A number is too small.
    """
    if batch < 2 or rounds < 1:
        raise InputError(f"expected a batch of at least 2 and at least 1 round, got {batch} and {rounds}")
    progress("the first step of a new process")
    cold, warm = _starts()
    results = {}
    for name, config in {"paper": PAPER, "laptop": LAPTOP}.items():
        progress(f"the {name} network")
        results[name] = _network(config, batch=batch, rounds=rounds)
    progress("the molecular network")
    results["molecular"] = molecular_network(MolecularConfig(), batch=batch, rounds=rounds)
    threads, dimensions = torch.get_num_threads(), INTERVALS + CIRCLES
    return FlowBenchmark(
        batch=batch,
        threads=threads,
        dimensions=dimensions,
        cold_start_s=round(cold, 1),
        warm_start_s=round(warm, 1),
        networks=results,
    )


def _starts() -> tuple[float, float]:
    """Seconds of two processes that do one step each; the second finds the kernels that the first compiled."""
    script = "from boltzport.bench.flow import first_step; first_step()"
    took = []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", script], env=environment, check=True)
            took.append(time.perf_counter() - start)
    return took[0], took[1]


def first_step() -> None:
    """Do one gradient step with the paper's network."""
    flow = CouplingFlow(_layout(), PAPER, generator=torch.Generator().manual_seed(0))
    points = torch.rand(1000, flow.dimension, generator=torch.Generator().manual_seed(1))
    gradient_step(flow.parameters(), lambda: -flow.log_prob(points).mean())()


def _layout() -> Layout:
    return Layout([interval(0.0, 1.0)] * INTERVALS + [circle(0.0, 1.0)] * CIRCLES)


def _network(config: CouplingConfig, *, batch: int, rounds: int) -> NetworkResult:
    layout = _layout()
    flow = CouplingFlow(layout, config, generator=torch.Generator().manual_seed(0))
    eager = CouplingFlow(layout, config, generator=torch.Generator().manual_seed(0), compiled=False)
    points = torch.rand(batch, len(layout), generator=torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(2)
    steps = {
        "flow": gradient_step(flow.parameters(), lambda: -flow.log_prob(points).mean()),
        "floor": products(_layers(flow), batch, torch.float32),
        "bfloat16": products(_layers(flow), batch, torch.bfloat16),
        "eager": gradient_step(eager.parameters(), lambda: -eager.log_prob(points).mean()),
    }
    samples: dict[str, Callable[[], object]] = {
        "flow": torch.no_grad()(lambda: flow.sample_and_log_prob(batch, generator=generator))
    }
    built = {name: PeerFlow(INTERVALS, CIRCLES, config, kernel=kernel) for name, kernel in peers().items()}
    for name, peer in built.items():
        steps[name] = gradient_step(peer.parameters(), _likelihood(peer, points))
        samples[name] = _sampling(peer, batch)
    took, drew = side_by_side(steps, rounds=rounds), side_by_side(samples, rounds=rounds)
    return NetworkResult(
        parameters=sum(parameter.numel() for parameter in flow.parameters()),
        step_ms=milliseconds(took["flow"]),
        floor_ms=milliseconds(took["floor"]),
        floor_ratio=round(took["flow"] / took["floor"], 2),
        sample_ms=milliseconds(drew["flow"]),
        peers={name: round(took[name] / took["flow"], 2) for name in built},
        peers_sampling={name: round(drew[name] / drew["flow"], 2) for name in built},
        bfloat16_ratio=round(took["bfloat16"] / took["floor"], 2),
        eager_ratio=round(took["eager"] / took["flow"], 2),
    )


def _likelihood(peer: PeerFlow, points: Tensor) -> Callable[[], Tensor]:
    return lambda: -peer.log_det(points)[1].mean()


def _sampling(peer: PeerFlow, batch: int) -> Callable[[], object]:
    return torch.no_grad()(lambda: peer.log_det(torch.rand(batch, INTERVALS + CIRCLES), inverse=True))


def _layers(flow: CouplingFlow) -> list[Product]:
    found = []
    for coupling in flow.couplings:
        network = coupling.conditioner
        outputs = network.head_weight.shape[0] + network.last_weight.shape[0]
        inputs = network.weights[0].shape[1]
        found += [Product(rows, columns) for columns, rows in pairwise((inputs, *flow.config.hidden, outputs))]
    return found
