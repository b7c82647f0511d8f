"""A flow with random weights and an asymmetric density, to compare gradients on."""

import torch
from torch import Tensor

from boltzport.core.layout import Layout, circle, interval
from boltzport.flows import CouplingConfig, CouplingFlow, Flow

LAYOUT = Layout([interval(-4.0, 4.0, centre=0.5, width=1.2), interval(-5.0, 5.0, centre=0.0, width=1.0), circle()])


def random_flow(seed: int, *, size: float = 0.12) -> Flow:
    flow = CouplingFlow(
        LAYOUT, CouplingConfig(pairs=2, hidden=(8,)), generator=torch.Generator().manual_seed(0), compiled=False
    )
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in flow.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))
    return flow.double()


def log_density(x: Tensor) -> Tensor:
    return -0.5 * ((x[:, 0] - 0.8) / 0.9) ** 2 - 0.5 * (x[:, 1] - 0.3 * x[:, 0]) ** 2 + 0.6 * torch.cos(x[:, 2] - 1.0)


def flat(gradients: list[Tensor]) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])
