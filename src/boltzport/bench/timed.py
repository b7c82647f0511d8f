"""Timings of a flow benchmark: gradient steps, and the matrix products that they consist of at least."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class NetworkResult:
    """Timings of one network.

    Attributes:
        parameters: Number of parameters.
        step_ms: Time of a maximum likelihood gradient step with Adam.
        floor_ms: Time of the matrix products of that step alone.
        floor_ratio: Ratio of `step_ms` to `floor_ms`.
        sample_ms: Time to draw a batch with its log density.
        peers: Speedup of a step relative to each library.
        peers_sampling: Speedup of sampling relative to each library.
        bfloat16_ratio: Time of the matrix products in bfloat16, relative to float32.
        eager_ratio: Time of an uncompiled step, relative to a compiled one.
        couplings_ratio: Speedup of a step relative to the laptop's coupling flow on the same coordinates; None for that
            flow itself.
        couplings_sampling_ratio: Speedup of sampling relative to that flow.
        parts_ms: Times of parts of the training, by name, for a flow of two halves.
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
    """Matrix products of a layer: the output, the gradient of the weights, and that of the inputs if needed."""

    rows: int
    columns: int
    inputs: bool = True


def gradient_step(parameters: Iterable[nn.Parameter], loss: Callable[[], Tensor]) -> Callable[[], None]:
    """Return a function that does one Adam step on a loss."""
    optimiser = torch.optim.Adam(parameters, lr=1e-5, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def products(layers: Sequence[Product], batch: int, dtype: torch.dtype) -> Callable[[], None]:
    """Return a function that does only the matrix products of a gradient step."""
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
    """Convert seconds to rounded milliseconds."""
    return round(1e3 * seconds, 2)
