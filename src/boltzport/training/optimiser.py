"""Adam or SOAP with a warm-up, a schedule, clipped gradients and averaged weights."""

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TypeVar

import torch
from torch import Tensor, nn

from boltzport.core.parallel import ranks
from boltzport.training.base import Checkpoint
from boltzport.training.buckets import Buckets
from boltzport.training.soap import Soap

M = TypeVar("M", bound=nn.Module)


class Schedule(StrEnum):
    """Learning rate schedules."""

    COSINE = "cosine"
    CONSTANT = "constant"


class Algorithm(StrEnum):
    """Optimisation algorithms."""

    ADAM = "adam"
    SOAP = "soap"


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Settings of the optimiser.

    Attributes:
        learning_rate: Peak learning rate.
        warmup: Number of gradient steps over which the learning rate rises from zero to its peak.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: Coefficient of the L2 penalty on the weights, which is added to the gradient.
        max_gradient_norm: Gradients with a larger norm are clipped to this norm.
        average: Decay, per gradient step, of the exponential moving average of the flow's weights; 0 for no averaging.
        algorithm: Optimisation algorithm.
        sync_every: Number of gradient steps after which several processes average their weights, each following its own
            gradient until then; with 1 they average every gradient instead.
    """

    learning_rate: float
    warmup: int
    schedule: Schedule
    weight_decay: float
    max_gradient_norm: float
    average: float
    algorithm: Algorithm = Algorithm.ADAM
    sync_every: int = 1

    @classmethod
    def of(cls, settings: object) -> "OptimiserConfig":
        """Take the settings of the optimiser from those of a method, by name."""
        names = [field.name for field in fields(cls) if hasattr(settings, field.name)]
        return cls(**{name: getattr(settings, name) for name in names})


class Optimiser:
    """Optimises the weights of a module, or some of them.

    Args:
        parameters: Weights to optimise.
        config: Settings.

    Attributes:
        scale: Scale factor of the learning rate.
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
        self._apart, self._norm = 0, 0.0
        self._buckets = Buckets(self._parameters)
        self.scale = 1.0
        self._average = [parameter.detach().clone() for parameter in self._parameters] if config.average > 0 else []

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last step."""
        return float(self._descent.param_groups[0]["lr"])

    def step(self, loss: Tensor, *, progress: float) -> float:
        """Do one gradient step and return the norm of the gradient before clipping.

        If the gradient is not finite, the step is skipped. With `sync_every`, the norm is that of the last exchange, so
        that it is the same on all ranks.

        Args:
            loss: Loss to minimise.
            progress: Progress of the whole training, from 0 to 1.
        """
        self._descent.zero_grad()
        local = self._config.sync_every > 1 and not ranks().alone
        if local or ranks().alone:
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            self._buckets.backward(loss)
        norm = float(nn.utils.clip_grad_norm_(self._parameters, self._config.max_gradient_norm))
        if math.isfinite(norm):
            self._descent.param_groups[0]["lr"] = self.scale * learning_rate(self._config, self._count, progress)
            self._descent.step()
            self._count += 1
            if self._average:
                # The first steps have too little history for the full decay.
                weight = min(self._config.average, (1.0 + self._count) / (10.0 + self._count))
                torch._foreach_lerp_(self._average, [p.detach() for p in self._parameters], 1.0 - weight)
        if not local:
            return norm
        self._apart += 1
        if self._apart == self._config.sync_every or not self._norm:
            self._meet(norm)
        return self._norm

    def settle(self) -> None:
        """Make everything equal on all ranks after steps of their own, as it must be when a fit is judged or saved."""
        if self._config.sync_every == 1 or ranks().alone:
            return
        if self._apart:
            self._meet(self._norm)
        # The next step meets again, whether it follows or is resumed.
        self._norm = 0.0
        state = self._descent.state_dict()["state"].values()
        ranks().follow([value for entry in state for value in entry.values() if isinstance(value, Tensor)])

    def _meet(self, norm: float) -> None:
        """Average the weights over the ranks, and the norm of their gradients."""
        held = torch.tensor([norm], device=self._parameters[0].device)
        ranks().average([*(parameter.detach() for parameter in self._parameters), *self._average, held])
        self._apart, self._norm = 0, float(held)

    def averaged(self, module: M) -> M:
        """Return a copy of the module, with averaged weights if there are any."""
        return averaged(module, self)

    @property
    def averages(self) -> list[tuple[nn.Parameter, Tensor]]:
        """Averaged weights, each with its average."""
        return list(zip(self._parameters, self._average, strict=False))

    def save(self) -> Checkpoint:
        """Return the state of the optimiser, without the module's weights; tensors are copies."""
        record = {
            "adam": self._descent.state_dict(),
            "count": self._count,
            "scale": self.scale,
            "average": self._average,
        }
        return copy.deepcopy(record)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self._descent.load_state_dict(copy.deepcopy(checkpoint["adam"]))
        self._count, self.scale = checkpoint["count"], checkpoint["scale"]
        self._average = [value.clone() for value in checkpoint["average"]]


@torch.no_grad()
def averaged(module: M, *optimisers: Optimiser) -> M:
    """Return a copy of a module, with the averaged weights of several optimisers if there are any."""
    result = copy.deepcopy(module)
    copies = {id(old): new for old, new in zip(module.parameters(), result.parameters(), strict=True)}
    for optimiser in optimisers:
        for parameter, average in optimiser.averages:
            copies[id(parameter)].copy_(average)
    return result


def learning_rate(config: OptimiserConfig, count: int, progress: float) -> float:
    """Learning rate after `count` gradient steps.

    Example:
        >>> config = OptimiserConfig(learning_rate=1.0, warmup=10, schedule=Schedule.COSINE, weight_decay=0.0,
        ...                          max_gradient_norm=1.0, average=0.0)
        >>> [round(learning_rate(config, count, count / 100), 3) for count in (0, 4, 50, 100)]
        [0.1, 0.498, 0.5, 0.0]
    """
    rise = min(1.0, (count + 1) / config.warmup) if config.warmup else 1.0
    fall = 0.5 * (1.0 + math.cos(math.pi * min(progress, 1.0))) if config.schedule is Schedule.COSINE else 1.0
    return config.learning_rate * rise * fall
