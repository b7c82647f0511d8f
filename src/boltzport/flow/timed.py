"""What a benchmark of a flow times: gradient steps, and the matrix products that they cannot do without."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class NetworkResult:
    """Times of one network.

    Attributes:
        parameters: Number of parameters.
        step_ms: A gradient step of maximum likelihood with Adam.
        floor_ms: The matrix products of that step alone.
        floor_ratio: Step over floor.
        sample_ms: Drawing a batch with its log density.
        peers: How many times faster a step is than on each library.
        peers_sampling: How many times faster sampling is.
        bfloat16_ratio: Time of the matrix products in bfloat16 over that in float32.
        eager_ratio: Time of an uncompiled step over a compiled one.
        couplings_ratio: How many times faster a step is than that of the laptop's coupling flow on the same
            coordinates; none where it is one itself.
        couplings_sampling_ratio: How many times faster sampling is.
        parts_ms: Times of parts of the training, by name, where a flow has halves.
    """

    parameters: int
    step_ms: float
    floor_ms: float
    floor_ratio: float
    sample_ms: float
    peers: dict[str, float]
    peers_sampling: dict[str, float]
    bfloat16_ratio: float
    eager_ratio: float
    couplings_ratio: float | None = None
    couplings_sampling_ratio: float | None = None
    parts_ms: dict[str, float] = field(default_factory=dict)


class Product(NamedTuple):
    """A layer as its matrix products: the output, the gradient by weights, and that by inputs where it is needed."""

    rows: int
    columns: int
    inputs: bool = True


def gradient_step(parameters: Iterable[nn.Parameter], loss: Callable[[], Tensor]) -> Callable[[], None]:
    """A step of Adam on a loss."""
    optimiser = torch.optim.Adam(parameters, lr=1e-5, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def products(layers: Sequence[Product], batch: int, dtype: torch.dtype) -> Callable[[], None]:
    """The matrix products of a gradient step, and nothing else."""
    work = [
        tuple(torch.randn(size).to(dtype) for size in ((rows, columns), (columns, batch), (rows, batch)))
        for rows, columns, _ in layers
    ]

    def multiply() -> None:
        for (weight, features, gradient), layer in zip(work, layers, strict=True):
            torch.mm(weight, features)
            torch.mm(gradient, features.T)
            if layer.inputs:
                torch.mm(weight.T, gradient)

    return multiply


def milliseconds(seconds: float) -> float:
    """As results have them."""
    return round(1e3 * seconds, 2)
