"""Base class of the normalizing flows on a layout: exact samples and exact densities."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.core.errors import InputError
from boltzport.core.files import write_atomically
from boltzport.core.layout import Layout
from boltzport.core.records import to_plain
from boltzport.core.tensors import to_safetensors

FORMAT = 1
"""Version of the file format."""


class Samples(NamedTuple):
    """Samples in the units of the layout, and their log density."""

    coordinates: Float[Tensor, "batch dimensions"]
    log_q: Float[Tensor, " batch"]


class Flow(nn.Module, ABC):
    """A normalizing flow: a density on the coordinates of a layout that can be sampled and evaluated.

    Densities are with respect to the coordinates in the units of the layout. Device and precision are those of the
    parameters (`flow.double()`, `flow.to(device)`). Each kind of flow sets `kind` and `config` and is a row of `FLOWS`.

    Args:
        layout: The coordinates.
        compiled: Whether to compile the splines at their first use, if a compiler is available.
        chunk: Number of points processed at once when no gradient is needed.

    Attributes:
        kind: Name of the kind of flow.
        config: Size of the flow, a frozen dataclass of its kind.
    """

    kind: ClassVar[str]
    config: Any

    lower: Tensor
    length: Tensor
    log_volume: Tensor
    period: Tensor

    def __init__(self, layout: Layout, *, compiled: bool = True, chunk: int = 8192) -> None:
        super().__init__()
        self.layout = layout
        self.compiled = compiled
        self.chunk = chunk
        lower = torch.tensor([axis.lower for axis in layout], dtype=torch.float64)
        length = torch.tensor([axis.upper - axis.lower for axis in layout], dtype=torch.float64)
        period = torch.tensor([axis.period for axis in layout], dtype=torch.float64)
        self.register_buffer("lower", lower, persistent=False)
        self.register_buffer("length", length, persistent=False)
        self.register_buffer("log_volume", length.log().sum(), persistent=False)
        self.register_buffer("period", period, persistent=False)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.layout)

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return self.lower.device

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the parameters."""
        return next(self.parameters()).dtype

    @property
    @abstractmethod
    def unit(self) -> Float[Tensor, " dimensions"]:
        """Unit of length of each coordinate, for comparisons between coordinates."""

    @abstractmethod
    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the untrained flow."""

    @abstractmethod
    def _log_prob(self, coordinates: Tensor) -> Tensor:
        """Log density of checked points; minus infinity outside the range of an interval."""

    @abstractmethod
    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        """Draw n samples in one batch."""

    def log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of coordinates; minus infinity, with zero gradient, outside the range of an interval."""
        self._check(coordinates)
        return self._chunked(self._log_prob, coordinates)

    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "batch dimensions"]:
        """Draw n samples; the generator must be on the device of the flow."""
        return self.sample_and_log_prob(n, generator=generator).coordinates

    def sample_and_log_prob(self, n: int, *, generator: torch.Generator) -> Samples:
        """Draw n samples with their log density.

        With gradients enabled, both are differentiable with respect to the parameters.
        """
        sizes = [n] if torch.is_grad_enabled() else _chunks(n, self.chunk)
        parts = [self._sample(size, generator) for size in sizes]
        if not parts:
            empty = self.length.new_empty(0, self.dimension, dtype=self.dtype)
            return Samples(empty, empty[:, 0])
        return Samples(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))

    def save(self, path: Path, *, metadata: dict[str, str] | None = None, stored: torch.dtype | None = None) -> None:
        """Write weights, masks, layout and configuration as a safetensors file, without pickle.

        Args:
            path: Path of the file.
            metadata: Additional entries of the file header.
            stored: Data type of the weights in the file, by default that of the flow; `load_flow` restores the flow's.

        Raises:
            RunError: The file cannot be written, for example because the disk is full.
        """
        content = self.to_bytes(metadata=metadata, stored=stored)
        write_atomically(path, lambda file: file.write(content))

    def to_bytes(self, *, metadata: dict[str, str] | None = None, stored: torch.dtype | None = None) -> bytes:
        """Content of the file that `save` writes and `load_flow` reads."""
        header = {
            "format": str(FORMAT),
            "kind": self.kind,
            "layout": json.dumps(self.layout.to_json()),
            "config": json.dumps(to_plain(self.config)),
            "dtype": str(self.dtype).removeprefix("torch."),
        }
        if self.layout.skeleton is not None:
            header["skeleton"] = json.dumps(self.layout.skeleton.to_json())
        state = dict(self.state_dict())
        if stored is not None:
            state |= {name: weight.detach().to(stored) for name, weight in self.named_parameters()}
        return to_safetensors(state, metadata=header | (metadata or {}))

    def _chunked(self, function: Callable[[Tensor], Tensor], coordinates: Tensor) -> Tensor:
        """Apply a function to points, in chunks if no gradient is needed."""
        if torch.is_grad_enabled():
            return function(coordinates)
        parts = [function(part) for part in torch.split(coordinates, self.chunk)]
        return torch.cat(parts) if parts else coordinates.new_empty(0)

    def _check(self, coordinates: Tensor) -> None:
        if coordinates.ndim != 2 or coordinates.shape[1] != self.dimension:
            raise InputError(f"expected coordinates of shape (batch, {self.dimension}), got {tuple(coordinates.shape)}")

    def _unit(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """Points in the unit box, (dimensions, batch), and a mask of those inside it."""
        lower, length, period = (part.to(coordinates.dtype) for part in (self.lower, self.length, self.period))
        return in_unit_box(coordinates, lower, length, period)


def in_unit_box(coordinates: Tensor, lower: Tensor, length: Tensor, period: Tensor) -> tuple[Tensor, Tensor]:
    """Points in the unit box, (dimensions, batch), and a mask of those inside it; whole periods are removed."""
    above = coordinates - lower
    turns = torch.where(period.isfinite(), torch.floor(above / period) * period.nan_to_num(posinf=0.0), 0.0)
    unit = ((above - turns) / length).T.contiguous()
    return unit.clamp(0.0, 1.0), (unit >= 0.0) & (unit <= 1.0)


def _chunks(n: int, size: int) -> list[int]:
    return [min(size, n - start) for start in range(0, n, size)]
