"""Small flows and short trainings for the tests of methods."""

from typing import Any

import torch

from boltzport.flows import CouplingConfig, CouplingFlow, Flow
from boltzport.targets import CountedTarget, Target
from boltzport.training import Method, StepInfo


def quiet(_stage: str, _done: int, _total: int) -> None:
    pass


def small_flow(target: Target, *, seed: int = 0, pairs: int = 2, width: int = 16, moved: float = 0.0) -> Flow:
    """A flow at its base density, or with weights that were moved at random."""
    config, generator = CouplingConfig(pairs=pairs, hidden=(width,)), torch.Generator().manual_seed(seed)
    flow = CouplingFlow(target.layout, config, generator=generator, compiled=False)
    if moved:
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for parameter in flow.parameters():
                parameter.add_(moved * torch.randn(parameter.shape, generator=generator))
    return flow


def trained(
    method: Method[Any], target: Target, *, seed: int = 0, flow: Flow | None = None
) -> tuple[list[StepInfo], CountedTarget, Flow]:
    """All rows of a training, its target with the ledger, and the flow it ends with."""
    counted, generator = CountedTarget(target), torch.Generator().manual_seed(seed)
    state, rows = method.init(flow or small_flow(target, seed=seed), counted), []
    while not method.finished(state):
        rows.append(method.step(state, generator=generator, progress=quiet))
    return rows, counted, state.result()
