"""The conditioner of a coupling: a network from the fixed coordinates to the raw spline parameters of the others."""

import math
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Activation(StrEnum):
    """Nonlinearity of the hidden layers."""

    RELU = "relu"
    SILU = "silu"


class RawParameters(NamedTuple):
    """Raw spline parameters of every dimension, and the last slopes, which only intervals have."""

    raw: Float[Tensor, "parameters dimensions batch"]
    last: Float[Tensor, "intervals batch"]


class Conditioner(nn.Module):
    """Fully connected network with the batch in the last dimension.

    Its output therefore has one row for each raw parameter of each dimension, which the spline reads without a
    transposition. The last layer is initialised to zero, so that a new flow equals its base density.

    Args:
        inputs: Number of input features.
        hidden: Widths of the hidden layers.
        outputs: Number of raw parameters per dimension, without the last slope.
        dimensions: Number of transformed dimensions.
        intervals: Number of transformed dimensions that are intervals.
        activation: Nonlinearity.
        generator: Random generator for the initial weights.
    """

    def __init__(
        self,
        inputs: int,
        *,
        hidden: tuple[int, ...],
        outputs: int,
        dimensions: int,
        intervals: int,
        activation: Activation,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        sizes = (inputs, *hidden)
        shapes = [(rows, columns) for columns, rows in pairwise(sizes)]
        self.weights = nn.ParameterList(nn.Parameter(_uniform(shape, shape[1], generator)) for shape in shapes)
        self.biases = nn.ParameterList(nn.Parameter(_uniform(shape[:1], shape[1], generator)) for shape in shapes)
        # Two last layers instead of one: the gradient of each is then one contiguous matrix, written by the spline.
        # Their biases are a last column, for a feature that is always 1: with so many rows this is cheaper than adding.
        self.head_weight = nn.Parameter(torch.zeros(outputs * dimensions, sizes[-1] + 1))
        self.last_weight = nn.Parameter(torch.zeros(intervals, sizes[-1] + 1))
        self.outputs = outputs
        self.dimensions = dimensions
        # Nothing else uses the output of a matrix product, so it can be modified in place.
        self._activate = {Activation.RELU: torch.relu_, Activation.SILU: nn.functional.silu}[activation]

    def forward(self, features: Float[Tensor, "inputs batch"]) -> RawParameters:
        """Raw spline parameters."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            features = self._activate(torch.addmm(bias[:, None], weight, features))
        features = torch.cat([features, features.new_ones(1, features.shape[1])])
        raw, last = torch.mm(self.head_weight, features), torch.mm(self.last_weight, features)
        return RawParameters(raw.view(self.outputs, self.dimensions, features.shape[1]), last)


def _uniform(shape: tuple[int, ...], inputs: int, generator: torch.Generator) -> Tensor:
    """Initial values with the variance of torch's linear layers."""
    return (2.0 * torch.rand(shape, generator=generator) - 1.0) / math.sqrt(max(inputs, 1))
