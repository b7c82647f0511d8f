"""Base class of the targets with known answers."""

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.layout import Layout
from boltzport.targets.base import Evaluated, Target


class Toy(Target):
    """A density whose normalising constant, samples and modes are known.

    Args:
        name: Name of the target.
        layout: The coordinates; the density outside their box is negligible.
    """

    def __init__(self, name: str, layout: Layout) -> None:
        self._name = name
        self._layout = layout

    @property
    def name(self) -> str:
        """Name of the target."""
        return self._name

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self._layout

    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"]) -> Evaluated:
        """Log density with respect to the coordinates themselves."""
        log_p = self.log_density(coordinates.double())
        return Evaluated(log_p, torch.zeros_like(log_p))

    @property
    @abstractmethod
    def log_z(self) -> float:
        """Log of the normalising constant."""

    @abstractmethod
    def log_density(self, points: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log of the unnormalised density."""

    @abstractmethod
    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "batch dimensions"]:
        """Independent samples."""

    @property
    @abstractmethod
    def modes(self) -> Float[Tensor, " modes"]:
        """Probability of each mode."""

    @abstractmethod
    def mode_of(self, points: Float[Tensor, "batch dimensions"]) -> Int[Tensor, " batch"]:
        """Index of the mode that each point belongs to."""
