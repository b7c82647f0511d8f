"""The small networks of a molecular flow, with the batch in the last dimension."""

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn


class Network(nn.Module):
    """Fully connected layers; the last one is initialised to zero, so that a new flow has its initial density.

    Args:
        inputs: Number of features.
        hidden: Widths of the hidden layers.
        outputs: Number of outputs.
        generator: Random generator for the initial weights.
    """

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int, *, generator: torch.Generator) -> None:
        super().__init__()
        sizes = (inputs, *hidden)
        shapes = [(rows, columns) for columns, rows in pairwise(sizes)]
        self.weights = nn.ParameterList(nn.Parameter(_uniform(shape, shape[1], generator)) for shape in shapes)
        self.biases = nn.ParameterList(nn.Parameter(_uniform(shape[:1], shape[1], generator)) for shape in shapes)
        self.head_weight = nn.Parameter(torch.zeros(outputs, sizes[-1]))
        self.head_bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, features: Float[Tensor, "inputs batch"]) -> Float[Tensor, "outputs batch"]:
        """Outputs of the network."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            features = nn.functional.silu(torch.addmm(bias[:, None], weight, features))
        return torch.addmm(self.head_bias[:, None], self.head_weight, features)


def angle_features(angles: Float[Tensor, "angles batch"], harmonics: int) -> Float[Tensor, "features batch"]:
    """Cosines and sines of multiples of angles; those of one angle are adjacent.

    Args:
        angles: Angles in radian.
        harmonics: Number of multiples.
    """
    batch = angles.shape[1]
    if not len(angles):
        return angles
    # Multiples by the addition theorem: only two transcendental functions per angle.
    cosine, sine = angles.cos(), angles.sin()
    rows, c, s = [cosine, sine], cosine, sine
    for _ in range(harmonics - 1):
        c, s = c * cosine - s * sine, s * cosine + c * sine
        rows += [c, s]
    return torch.stack(rows, 1).reshape(2 * harmonics * len(angles), batch)


def _uniform(shape: tuple[int, ...], inputs: int, generator: torch.Generator) -> Tensor:
    """Initial values with the variance of torch's linear layers."""
    return (2.0 * torch.rand(shape, generator=generator) - 1.0) / math.sqrt(max(inputs, 1))
