"""Mixtures of Gaussians."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from boltzport.core.layout import Layout
from boltzport.targets.toy import Toy


class GaussianMixture(Toy):
    """A normalised mixture of Gaussians.

    Args:
        name: Name of the target.
        layout: The coordinates.
        weights: Probabilities of the components.
        means: Means of the components.
        factors: Lower triangular factors L of their covariances L L^T.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        *,
        weights: Float[Tensor, " modes"],
        means: Float[Tensor, "modes dimensions"],
        factors: Float[Tensor, "modes dimensions dimensions"],
    ) -> None:
        super().__init__(name, layout)
        self._weights = weights.double()
        self.means = means.double()
        self.factors = factors.double()
        self._inverses = torch.linalg.inv(self.factors)
        self._log_scales = torch.linalg.slogdet(self.factors).logabsdet + 0.5 * len(layout) * math.log(2 * math.pi)

    @property
    def log_z(self) -> float:
        """Zero: the mixture is normalised."""
        return 0.0

    @property
    def modes(self) -> Float[Tensor, " modes"]:
        """Probabilities of the components."""
        return self._weights

    def log_density(self, points: Float[Tensor, "batch dimensions"]) -> Float[Tensor, " batch"]:
        """Log density."""
        return torch.logsumexp(self._log_components(points), 1)

    def mode_of(self, points: Float[Tensor, "batch dimensions"]) -> Int[Tensor, " batch"]:
        """The most likely component of each point."""
        return self._log_components(points.double()).argmax(1)

    def sample(self, n: int, *, generator: torch.Generator) -> Float[Tensor, "batch dimensions"]:
        """Independent samples."""
        component = torch.multinomial(self._weights, n, replacement=True, generator=generator)
        normal = torch.randn(n, len(self.layout), dtype=torch.float64, generator=generator)
        return self.means[component] + (self.factors[component] @ normal[:, :, None])[:, :, 0]

    def _log_components(self, points: Tensor) -> Tensor:
        inverses, means, weights, log_scales = (
            part.to(points.device) for part in (self._inverses, self.means, self._weights, self._log_scales)
        )
        deviation = inverses @ (points[:, None] - means)[..., None]
        log_components: Tensor = weights.log() - log_scales - 0.5 * (deviation**2).sum((2, 3))
        return log_components
