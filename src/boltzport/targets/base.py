"""Targets: unnormalised densities on a layout, and the ledger that counts their evaluations."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.errors import InputError
from boltzport.core.layout import Layout, interval
from boltzport.core.parallel import ranks


class Evaluated(NamedTuple):
    """Values of a target at some points.

    Attributes:
        log_p: Log of the unnormalised density with respect to the target's own measure (positions, for a molecule);
            NaN where an evaluation failed.
        log_volume: Log of the volume of the target's own measure per unit of coordinates: a density q of the
            coordinates has the log density log_q - log_volume with respect to that measure.
    """

    log_p: Float[Tensor, " batch"]
    log_volume: Float[Tensor, " batch"]


class Target(ABC):
    """An unnormalised density on the coordinates of a layout."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the target."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """The coordinates."""

    @property
    def differentiable(self) -> bool:
        """Whether the target has a gradient; true unless overridden."""
        return True

    @abstractmethod
    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"]) -> Evaluated:
        """Evaluate the log density in float64; differentiable if the coordinates require a gradient and it has one."""


class Density(Target):
    """A target defined by a function of the coordinates.

    Args:
        log_density: Maps points (batch, dimensions) to the unnormalised log density (batch,).
        space: Layout, or lower and upper bounds of each coordinate, with a uniform initial density.
        name: Name in messages and files.
        differentiable: Whether torch can differentiate the function.

    Example:
        >>> density = Density(lambda x: -0.5 * (x**2).sum(1), [(-5.0, 5.0), (-5.0, 5.0)])
        >>> density
        Density(density, 2 coordinates)
        >>> density.evaluate(torch.zeros(1, 2)).log_p
        tensor([-0.], dtype=torch.float64)
    """

    def __init__(
        self,
        log_density: Callable[[Tensor], Tensor],
        space: Layout | Sequence[tuple[float | int, float | int]],
        *,
        name: str = "density",
        differentiable: bool = True,
    ) -> None:
        self._log_density = log_density
        self._layout = (
            space
            if isinstance(space, Layout)
            else Layout(interval(float(lower), float(upper)) for lower, upper in space)
        )
        self._name = name
        self._differentiable = differentiable

    def __repr__(self) -> str:
        return f"Density({self.name}, {len(self.layout)} coordinates)"

    @property
    def name(self) -> str:
        """Name of the target."""
        return self._name

    @property
    def differentiable(self) -> bool:
        """Whether the target has a gradient."""
        return self._differentiable

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self._layout

    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"]) -> Evaluated:
        """Call the function and check the shape of its result."""
        log_p = self._log_density(coordinates)
        if not isinstance(log_p, Tensor):
            raise InputError(
                f"the log density of {self.name}: expected a torch tensor, got {type(log_p).__name__}; wrap the result "
                "in torch.as_tensor, with differentiable=False if it is computed outside torch"
            )
        if log_p.shape != coordinates.shape[:1]:
            expected, got = tuple(coordinates.shape[:1]), tuple(log_p.shape)
            raise InputError(f"the log density of {self.name}: expected a tensor of shape {expected}, got {got}")
        return Evaluated(log_p.double(), torch.zeros_like(log_p, dtype=torch.float64))


class Purpose(StrEnum):
    """Purpose of an evaluation: before training, for training, to monitor it, or to evaluate the flow afterwards."""

    STARTUP = "startup"
    TRAINING = "training"
    MONITORING = "monitoring"
    EVALUATION = "evaluation"


class Ledger:
    """Counts of a target's evaluations by purpose, of those with a gradient, and of those that failed."""

    def __init__(self, counts: dict[str, int] | None = None) -> None:
        self._counts = {key: 0 for purpose in Purpose for key in (purpose.value, f"{purpose.value}_gradients")}
        self._counts |= {"failed": 0, **(counts or {})}
        self.begin()

    def begin(self) -> None:
        """Take the present counts for those of all ranks together."""
        self._agreed = dict(self._counts)

    def agree(self) -> None:
        """Add what the other ranks have counted since the last agreement."""
        if ranks().alone:
            return
        news = ranks().total([self._counts[key] - self._agreed[key] for key in sorted(self._counts)])
        for key, new in zip(sorted(self._counts), news, strict=True):
            self._counts[key] = self._agreed[key] + round(new)
        self.begin()

    def add(self, purpose: Purpose, *, evaluations: int, gradients: int = 0, failed: int = 0) -> None:
        """Count a batch."""
        self._counts[purpose.value] += evaluations
        self._counts[f"{purpose.value}_gradients"] += gradients
        self._counts["failed"] += failed

    @property
    def total(self) -> int:
        """Number of evaluations for all purposes, with or without a gradient."""
        return sum(self._counts[purpose.value] for purpose in Purpose)

    @property
    def gradients(self) -> int:
        """Number of evaluations with a gradient, for all purposes."""
        return sum(self._counts[f"{purpose.value}_gradients"] for purpose in Purpose)

    @property
    def cost(self) -> int:
        """Number of evaluations until the end of a training: all except those that evaluate the flow afterwards."""
        return self.total - self._counts[Purpose.EVALUATION.value]

    @property
    def cost_gradients(self) -> int:
        """Number of these evaluations with a gradient."""
        return self.gradients - self._counts[f"{Purpose.EVALUATION.value}_gradients"]

    def __getitem__(self, key: str) -> int:
        """One count: a purpose, a purpose followed by `_gradients`, or `failed`."""
        return self._counts[key]

    def plus(self, other: "Ledger") -> "Ledger":
        """A ledger with the counts of both."""
        counts = other.to_json()
        return Ledger({key: value + counts.get(key, 0) for key, value in self._counts.items()})

    def to_json(self) -> dict[str, int]:
        """Return the counts as plain numbers, which `Ledger` accepts."""
        return dict(self._counts)


class CountedTarget:
    """A target with its ledger; all training and evaluation goes through it.

    Args:
        target: Target density.
        ledger: Ledger that counts the evaluations; a new one by default.
    """

    def __init__(self, target: Target, ledger: Ledger | None = None) -> None:
        self.target = target
        self.ledger = Ledger() if ledger is None else ledger

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self.target.layout

    @property
    def differentiable(self) -> bool:
        """Whether the target has a gradient."""
        return self.target.differentiable

    def evaluate(self, coordinates: Float[Tensor, "batch dimensions"], purpose: Purpose) -> Evaluated:
        """Evaluate the target and count the evaluations."""
        found = self.target.evaluate(coordinates)
        with_gradient = coordinates.requires_grad and torch.is_grad_enabled()
        self.ledger.add(
            purpose,
            evaluations=len(coordinates),
            gradients=len(coordinates) if with_gradient else 0,
            failed=int((~found.log_p.detach().isfinite()).sum()),
        )
        return found
