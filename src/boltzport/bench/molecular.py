"""Speed of a molecular flow, relative to its own matrix products and to couplings on the same coordinates."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from boltzport.bench.timed import NetworkResult, Product, gradient_step, milliseconds, products
from boltzport.core.layout import Layout, circle, interval
from boltzport.core.stopwatch import side_by_side
from boltzport.flows.couplings.config import LAPTOP
from boltzport.flows.couplings.flow import CouplingFlow
from boltzport.flows.molecular.config import MolecularConfig
from boltzport.flows.molecular.flow import MolecularFlow
from boltzport.flows.molecular.network import Network
from boltzport.flows.molecular.stiff import StiffCoupling

FREE, NARROW, STIFF = 11, 4, 83
"""Numbers of coordinates of the tetrapeptide: free torsions, torsions about peptide bonds, and stiff coordinates."""


def tetrapeptide_layout() -> Layout:
    """Layout with the same numbers and kinds of coordinates as the tetrapeptide."""
    narrow = interval(0.0, 2 * math.pi, centre=math.pi, width=0.15, period=2 * math.pi)
    return Layout([circle()] * FREE + [narrow] * NARROW + [interval(-8.0, 8.0, centre=0.0, width=1.0)] * STIFF)


def molecular_network(config: MolecularConfig, *, batch: int, rounds: int) -> NetworkResult:
    """Measure a molecular flow, its parts, and the laptop's coupling flow; all take turns.

    The parts are a maximum likelihood step of the torsions and of the stiff half, and a path gradient of the stiff half
    without the forces.

    Args:
        config: Size of the flow.
        batch: Number of points per step.
        rounds: Number of timings of each candidate.
    """
    layout, generator = tetrapeptide_layout(), torch.Generator().manual_seed(2)
    flow, eager = (
        MolecularFlow(layout, config, generator=torch.Generator().manual_seed(0), compiled=compiled)
        for compiled in (True, False)
    )
    couplings = CouplingFlow(layout, LAPTOP, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        points = flow.sample(batch, generator=generator)
    steps = {
        "flow": gradient_step(flow.parameters(), lambda: -flow.log_prob(points).mean()),
        "floor": products(list(layers(flow)), batch, torch.float32),
        "bfloat16": products(list(layers(flow)), batch, torch.bfloat16),
        "eager": gradient_step(eager.parameters(), lambda: -eager.log_prob(points).mean()),
        "couplings": gradient_step(couplings.parameters(), lambda: -couplings.log_prob(points).mean()),
    }
    parts = _parts(flow, points, generator)
    took = side_by_side({**steps, **parts}, rounds=rounds)
    drew = side_by_side(
        {
            "flow": torch.no_grad()(lambda: flow.sample_and_log_prob(batch, generator=generator)),
            "couplings": torch.no_grad()(lambda: couplings.sample_and_log_prob(batch, generator=generator)),
        },
        rounds=rounds,
    )
    return NetworkResult(
        parameters=sum(parameter.numel() for parameter in flow.parameters()),
        step_ms=milliseconds(took["flow"]),
        floor_ms=milliseconds(took["floor"]),
        floor_ratio=round(took["flow"] / took["floor"], 2),
        sample_ms=milliseconds(drew["flow"]),
        peers={},
        peers_sampling={},
        bfloat16_ratio=round(took["bfloat16"] / took["floor"], 2),
        eager_ratio=round(took["eager"] / took["flow"], 2),
        couplings_ratio=round(took["couplings"] / took["flow"], 2),
        couplings_sampling_ratio=round(drew["couplings"] / drew["flow"], 2),
        parts_ms={name: milliseconds(took[name]) for name in parts},
    )


def layers(flow: MolecularFlow) -> Iterator[Product]:
    """All matrix products of a maximum likelihood step, including the linear skips."""
    for network in flow.torsion_half.networks:
        assert isinstance(network, Network)
        yield from _network(network, inputs=False)
    stiff = list(flow.stiff_half.layers)
    for coupling in stiff:
        assert isinstance(coupling, StiffCoupling)
        # The last coupling is the first one applied to data, so its inputs need no gradient.
        inputs = coupling is not stiff[-1]
        yield from _network(coupling.network, inputs=inputs)
        rows, columns = coupling.skip.shape
        yield Product(rows, columns, inputs)


def _network(network: Network, *, inputs: bool) -> Iterator[Product]:
    weights = [*network.weights, network.head_weight]
    for place, weight in enumerate(weights):
        rows, columns = weight.shape
        if columns:
            yield Product(rows, columns, inputs or place > 0)


def _parts(flow: MolecularFlow, points: Tensor, generator: torch.Generator) -> dict[str, Callable[[], None]]:
    def path() -> Tensor:
        coordinates, slope, _ = flow.sample_stiff_with_slope(points, generator=generator)
        return (slope * coordinates[:, flow.stiff]).mean()

    return {
        "torsions": gradient_step(flow.torsion_parameters, lambda: -flow.torsion_log_prob(points).mean()),
        "stiff": gradient_step(flow.stiff_parameters, lambda: -flow.stiff_log_prob(points).mean()),
        "stiff_path": gradient_step(flow.stiff_parameters, path),
    }
