"""Learners fit a flow to the density of a step; `Whole` is the paper's, with one loss for the whole flow."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flows import Flow
from boltzport.training.base import Checkpoint, Progress
from boltzport.training.buffer import Buffer
from boltzport.training.fit import FitData, FitInfo, LogProb, fit
from boltzport.training.methods.cmt.config import CMTConfig
from boltzport.training.methods.cmt.dual import Solution
from boltzport.training.methods.cmt.path import PathPoint, log_weights
from boltzport.training.optimiser import Optimiser


class Lesson(NamedTuple):
    """The density that a step is to learn.

    Attributes:
        buffer: Samples of the flow.
        log_ratio: Log ratio of the next density to the flow's.
        solution: Solution of the dual, which gives that ratio at other points.
        point: Position of the next density on the path.
        span: Progress of the learning rate schedule at the start and the end of the step.
        log_initial: Log density at the beginning of the path, with respect to the coordinates.
        rate: Scale factor of the learning rate.
    """

    buffer: Buffer
    log_ratio: Float[Tensor, " batch"]
    solution: Solution
    point: PathPoint
    span: tuple[float, float]
    log_initial: LogProb
    rate: float = 1.0

    def log_ratio_at(
        self, log_q: Float[Tensor, " points"], log_p: Float[Tensor, " points"]
    ) -> Float[Tensor, " points"]:
        """Log ratio of the next density to the flow's, at arbitrary points.

        Args:
            log_q: Log density of the flow with respect to the target's measure.
            log_p: Log of the unnormalised target.
        """
        return log_weights(log_q, log_p, self.solution.multipliers) - self.solution.change.log_z

    @property
    def data(self) -> FitData:
        """Fit data of the whole flow."""
        buffer = self.buffer
        return FitData(
            coordinates=buffer.coordinates,
            log_weights=buffer.log_base + self.log_ratio,
            log_density=buffer.log_q + self.log_ratio + buffer.log_volume,
            log_drawn=buffer.log_q + buffer.log_volume - buffer.log_base,
        )


class Learner(ABC):
    """Fits a flow to the density of a step."""

    @property
    @abstractmethod
    def learning_rate(self) -> float:
        """Learning rate of the last gradient step."""

    @abstractmethod
    def learn(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> FitInfo:
        """Fit the flow in place; if a gradient is not finite, neither is the returned loss."""

    @abstractmethod
    def begin_refining(self, *, renew: int = 0) -> None:
        """Restart the optimisers with the settings of the refinement.

        Args:
            renew: Number of gradient steps that retrain the stiff half from scratch, if there is one.
        """

    @abstractmethod
    def averaged(self) -> Flow:
        """Return a copy of the flow, with averaged weights if there are any."""

    @abstractmethod
    def save(self) -> Checkpoint:
        """Return the state of the optimisers; tensors are copies."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""


class Whole(Learner):
    """Trains the whole flow with one loss, as in the paper.

    Args:
        flow: The flow.
        config: Settings.
    """

    def __init__(self, flow: Flow, config: CMTConfig) -> None:
        self._flow, self._config = flow, config
        self.optimiser = Optimiser(flow.parameters(), config.optimiser)
        self._refining = False

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last gradient step."""
        return self.optimiser.learning_rate

    def learn(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> FitInfo:
        """Fit the flow by weighted maximum likelihood."""
        data = lesson.data if self._config.control else lesson.data._replace(log_drawn=None)
        return fit(
            self._flow.log_prob,
            self.optimiser,
            data,
            self._config.fit,
            generator=generator,
            progress=progress,
            span=lesson.span,
        )

    def begin_refining(self, *, renew: int = 0) -> None:
        """Restart the optimiser with the settings of the refinement."""
        del renew
        self._refining = True
        self.optimiser = Optimiser(self._flow.parameters(), self._config.refining)

    def averaged(self) -> Flow:
        """Return a copy of the flow, with averaged weights if there are any."""
        return self.optimiser.averaged(self._flow)

    def save(self) -> Checkpoint:
        """Return the state of the optimiser."""
        return {"optimiser": self.optimiser.save(), "refining": self._refining}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        if checkpoint["refining"]:
            self.begin_refining()
        self.optimiser.restore(checkpoint["optimiser"])
