"""Adam or SOAP with a warm-up, a schedule, clipped gradients and averaged weights."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeVar

import torch
from torch import Tensor, nn

from boltzport.methods.base import Checkpoint
from boltzport.methods.soap import Soap

M = TypeVar("M", bound=nn.Module)


class Schedule(StrEnum):
    """How the learning rate falls."""

    COSINE = "cosine"
    CONSTANT = "constant"


class Algorithm(StrEnum):
    """How a gradient becomes a step."""

    ADAM = "adam"
    SOAP = "soap"


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Settings of the optimiser.

    Attributes:
        learning_rate: Highest learning rate.
        warmup: Gradient steps over which it rises from zero.
        schedule: How it falls.
        weight_decay: Added to the gradient, in units of the weights.
        max_gradient_norm: Longer gradients are shortened to it.
        average: Weight of the past in the running average of the flow's weights, per gradient step; 0 for none.
        algorithm: How a gradient becomes a step.
    """

    learning_rate: float
    warmup: int
    schedule: Schedule
    weight_decay: float
    max_gradient_norm: float
    average: float
    algorithm: Algorithm = Algorithm.ADAM

    @classmethod
    def of(cls, settings: object) -> "OptimiserConfig":
        """The settings of the optimiser among those of a method, where they have the same names."""
        names = [field.name for field in fields(cls) if hasattr(settings, field.name)]
        return cls(**{name: getattr(settings, name) for name in names})


class Optimiser:
    """Moves the weights of a module, or some of them.

    Args:
        parameters: The weights.
        config: Settings.

    Attributes:
        scale: Factor of the learning rate.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimiserConfig) -> None:
        self._parameters = list(parameters)
        self._config = config
        rate, decay = config.learning_rate, config.weight_decay
        self._descent: torch.optim.Optimizer = (
            Soap(self._parameters, lr=rate, weight_decay=decay)
            if config.algorithm is Algorithm.SOAP
            else torch.optim.Adam(self._parameters, lr=rate, weight_decay=decay, fused=True)
        )
        self._count = 0
        self.scale = 1.0
        self._average = [parameter.detach().clone() for parameter in self._parameters] if config.average > 0 else []

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return float(self._descent.param_groups[0]["lr"])

    def step(self, loss: Tensor, *, progress: float) -> float:
        """Descend, and return the norm of the gradient before clipping.

        A gradient that is not finite moves nothing.

        Args:
            loss: What is to become smaller.
            progress: How much of the whole training is done, from 0 to 1.
        """
        self._descent.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = float(nn.utils.clip_grad_norm_(self._parameters, self._config.max_gradient_norm))
        if math.isfinite(norm):
            self._descent.param_groups[0]["lr"] = self.scale * learning_rate(self._config, self._count, progress)
            self._descent.step()
            self._count += 1
            if self._average:
                # Few steps have no past worth the whole weight.
                weight = min(self._config.average, (1.0 + self._count) / (10.0 + self._count))
                torch._foreach_lerp_(self._average, [p.detach() for p in self._parameters], 1.0 - weight)
        return norm

    def averaged(self, module: M) -> M:
        """A copy of the module, with the averaged weights where there are any."""
        return averaged(module, self)

    @property
    def averages(self) -> list[tuple[nn.Parameter, Tensor]]:
        """Weights that have an average, and that average."""
        return list(zip(self._parameters, self._average, strict=False))

    def save(self) -> Checkpoint:
        """State of the optimiser, without the module's weights; tensors are copies."""
        record = {
            "adam": self._descent.state_dict(),
            "count": self._count,
            "scale": self.scale,
            "average": self._average,
        }
        return copy.deepcopy(record)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over what `save` gave."""
        self._descent.load_state_dict(copy.deepcopy(checkpoint["adam"]))
        self._count, self.scale = checkpoint["count"], checkpoint["scale"]
        self._average = [value.clone() for value in checkpoint["average"]]


@torch.no_grad()
def averaged(module: M, *optimisers: Optimiser) -> M:
    """A copy of a module, with the averaged weights of several optimisers where there are any."""
    result = copy.deepcopy(module)
    copies = {id(old): new for old, new in zip(module.parameters(), result.parameters(), strict=True)}
    for optimiser in optimisers:
        for parameter, average in optimiser.averages:
            copies[id(parameter)].copy_(average)
    return result


def learning_rate(config: OptimiserConfig, count: int, progress: float) -> float:
    """Learning rate after some gradient steps.

    Example:
        >>> config = OptimiserConfig(learning_rate=1.0, warmup=10, schedule=Schedule.COSINE, weight_decay=0.0,
        ...                          max_gradient_norm=1.0, average=0.0)
        >>> [round(learning_rate(config, count, count / 100), 3) for count in (0, 4, 50, 100)]
        [0.1, 0.498, 0.5, 0.0]
    """
    rise = min(1.0, (count + 1) / config.warmup) if config.warmup else 1.0
    fall = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))) if config.schedule is Schedule.COSINE else 1.0
    return config.learning_rate * rise * fall
