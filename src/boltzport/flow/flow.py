"""A normalizing flow on a layout: exact samples, exact densities."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from jaxtyping import Float
from torch import Tensor, nn

from boltzport.errors import InputError
from boltzport.flow.base import Base
from boltzport.flow.config import FlowConfig
from boltzport.flow.coupling import Coupling
from boltzport.layout import Layout, Shape

FORMAT = 1
"""Version of the file format."""


class Samples(NamedTuple):
    """Coordinates in the units of the layout, and their log density."""

    coordinates: Float[Tensor, "batch dimensions"]
    log_q: Float[Tensor, " batch"]


class Flow(nn.Module):
    """Couplings in pairs with complementary random masks, between a base density and the coordinates of a layout.

    Densities are with respect to the coordinates in the units of the layout. Device and precision are those of the
    parameters (`flow.double()`, `flow.to(device)`).

    Args:
        layout: The coordinates.
        config: Size of the flow.
        generator: Draws masks, turns and initial weights.
        compiled: Compile the splines at their first use, where a compiler is there.
        chunk: Points that are in memory at once where no gradient is asked for.
    """

    lower: Tensor
    length: Tensor
    log_volume: Tensor
    period: Tensor

    def __init__(
        self,
        layout: Layout,
        config: FlowConfig,
        *,
        generator: torch.Generator,
        compiled: bool = True,
        chunk: int = 8192,
    ) -> None:
        super().__init__()
        self.layout = layout
        self.config = config
        self.compiled = compiled
        self.chunk = chunk
        self.base = Base(layout)
        self.layers = nn.ModuleList(_couplings(layout, config, generator))
        lower = torch.tensor([axis.lower for axis in layout], dtype=torch.float64)
        length = torch.tensor([axis.upper - axis.lower for axis in layout], dtype=torch.float64)
        self.register_buffer("lower", lower, persistent=False)
        self.register_buffer("length", length, persistent=False)
        self.register_buffer("log_volume", length.log().sum(), persistent=False)
        period = torch.tensor([axis.period for axis in layout], dtype=torch.float64)
        self.register_buffer("period", period, persistent=False)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.layout)

    @property
    def couplings(self) -> list[Coupling]:
        """The couplings, from base to data."""
        return [layer for layer in self.layers if isinstance(layer, Coupling)]

    def log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density; minus infinity, with gradient zero, outside the range of an interval."""
        self._check(coordinates)
        if torch.is_grad_enabled():
            return self._log_prob(coordinates)
        parts = [self._log_prob(part) for part in torch.split(coordinates, self.chunk)]
        return torch.cat(parts) if parts else coordinates.new_empty(0)

    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "batch dimensions"]:
        """Draw coordinates; the generator must be on the device of the flow."""
        return self.sample_and_log_prob(n, generator=generator).coordinates

    def sample_and_log_prob(self, n: int, *, generator: torch.Generator) -> Samples:
        """Draw coordinates and evaluate their log density on the way.

        With gradients enabled, both are differentiable with respect to the parameters.
        """
        sizes = [n] if torch.is_grad_enabled() else _chunks(n, self.chunk)
        parts = [self._sample(size, generator) for size in sizes]
        if not parts:
            empty = self.length.new_empty(0, self.dimension, dtype=self._dtype)
            return Samples(empty, empty[:, 0])
        return Samples(*(torch.cat(pieces) for pieces in zip(*parts, strict=True)))

    def save(self, path: Path, *, metadata: dict[str, str] | None = None) -> None:
        """Write weights, masks, layout and configuration as a safetensors file, without pickle."""
        path.write_bytes(self.to_bytes(metadata=metadata))

    def to_bytes(self, *, metadata: dict[str, str] | None = None) -> bytes:
        """The content of the file that `save` writes."""
        header = {
            "format": str(FORMAT),
            "layout": json.dumps(self.layout.to_json()),
            "config": json.dumps(self.config.to_json()),
        }
        state = {name: value.contiguous() for name, value in self.state_dict().items()}
        return safetensors.torch.save(state, metadata=header | (metadata or {}))

    @classmethod
    def load(cls, path: Path, *, compiled: bool = True) -> "Flow":
        """Read what `save` wrote.

        Raises:
            InputError: The file is missing or is not a flow.
        """
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if header.get("format") != str(FORMAT):
                raise InputError(f"{path} is not a flow of format {FORMAT}; another program or version wrote it")
            layout = Layout.from_json(json.loads(header["layout"]))
            config = FlowConfig.from_json(json.loads(header["config"]))
        except FileNotFoundError:
            raise InputError(f"no such file: {path}") from None
        except safetensors.SafetensorError as error:
            raise InputError(f"{path} is not a safetensors file: {error}") from error
        flow = cls(layout, config, generator=torch.Generator().manual_seed(0), compiled=compiled)
        dtype = next(value.dtype for name, value in state.items() if name.endswith("weight"))
        flow.to(dtype).load_state_dict(state)
        for coupling in flow.couplings:
            coupling.restore()
        return flow

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def _check(self, coordinates: Tensor) -> None:
        if coordinates.ndim != 2 or coordinates.shape[1] != self.dimension:
            raise InputError(f"expected coordinates of shape (batch, {self.dimension}), got {tuple(coordinates.shape)}")

    def initial_log_prob(self, coordinates: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density of the flow before any training, which is that of its base."""
        self._check(coordinates)
        points, inside = self._unit(coordinates)
        log_prob = self.base.log_prob(points) - self.log_volume.to(points.dtype)
        return torch.where(inside, log_prob, -torch.inf)

    def _unit(self, coordinates: Tensor) -> tuple[Tensor, Tensor]:
        """Points of the unit box, (dimensions, batch), and which of them lie in it."""
        lower, length, period = (part.to(coordinates.dtype) for part in (self.lower, self.length, self.period))
        above = coordinates - lower
        turns = torch.where(period.isfinite(), torch.floor(above / period) * period.nan_to_num(posinf=0.0), 0.0)
        unit = ((above - turns) / length).T.contiguous()
        return unit.clamp(0.0, 1.0), ((unit >= 0.0) & (unit <= 1.0)).all(0)

    def _log_prob(self, coordinates: Tensor) -> Tensor:
        points, inside = self._unit(coordinates)
        log_det = torch.zeros_like(points[0])
        for coupling in reversed(self.couplings):
            points, change = coupling(points, compiled=self.compiled)
            log_det = log_det + change
        log_prob = self.base.log_prob(points) + log_det - self.log_volume.to(points.dtype)
        return torch.where(inside, log_prob, -torch.inf)

    def _sample(self, n: int, generator: torch.Generator) -> Samples:
        points = self.base.sample(n, generator=generator).to(self._dtype)
        log_q = self.base.log_prob(points) - self.log_volume.to(points.dtype)
        for coupling in self.couplings:
            points, change = coupling.inverse(points, compiled=self.compiled)
            log_q = log_q - change
        coordinates = self.lower.to(points.dtype) + self.length.to(points.dtype) * points.T
        return Samples(coordinates.contiguous(), log_q)


def _couplings(layout: Layout, config: FlowConfig, generator: torch.Generator) -> Iterator[Coupling]:
    """Pairs with complementary masks; a mask takes half of the intervals and half of the circles, at random."""
    circular = [axis.shape is Shape.CIRCLE for axis in layout]
    for _ in range(config.pairs):
        halves = _halves(circular, generator)
        for transformed, fixed in (halves, halves[::-1]):
            yield Coupling(
                transformed=transformed,
                fixed=fixed,
                circular=circular,
                bins=config.bins,
                hidden=config.hidden,
                activation=config.activation,
                generator=generator,
            )


def _halves(circular: list[bool], generator: torch.Generator) -> tuple[list[int], list[int]]:
    first, second = [], []
    for shape in (False, True):
        members = [i for i, value in enumerate(circular) if value is shape]
        order = torch.randperm(len(members), generator=generator).tolist()
        # Where the number is odd, the intervals give the first half one more and the circles the second.
        cut = (len(members) + (not shape)) // 2
        first += sorted(members[i] for i in order[:cut])
        second += sorted(members[i] for i in order[cut:])
    return first, second


def _chunks(n: int, size: int) -> list[int]:
    return [min(size, n - start) for start in range(0, n, size)]
