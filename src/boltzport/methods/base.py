"""What every method is: a state that is all it needs to go on, and a step that moves it."""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.flow import Flow
from boltzport.progress import Progress as Progress
from boltzport.targets import CountedTarget
from boltzport.weights import Reweighting

Checkpoint = dict[str, Any]
"""Tensors, numbers and strings in dictionaries and lists: what `torch.load` reads with `weights_only`."""


class WeightedPoints(NamedTuple):
    """Samples of a target, in the order of time where they have one: what a method learns from that needs samples.

    Attributes:
        coordinates: The points.
        log_weights: What makes them a sample of the target; zero where they are one.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_weights: Float[Tensor, " batch"]


class StepInfo(NamedTuple):
    """A row of the metrics; None where a method has no such metric.

    Attributes:
        step: Number of the step, from 1.
        gradient_steps: Gradient steps so far.
        loss: Mean loss of the step's gradient steps.
        gradient_norm: Their mean gradient norm, before clipping.
        test_loss: Loss after the step on samples of the target that the training does without.
        entropy: Entropy of the flow that the step drew points from, nats, with respect to the target's measure: the one
            that it began with, or with a method that learns from samples the one that it ended with.
        ess: Effective fraction of its samples, reweighted to the target, the largest weights clipped as in the paper.
        ess_unclipped: The same without.
        ess_torsions: Effective fraction of the torsions' marginal density, where a flow has two halves.
        ess_stiff: The same of the stiff coordinates given the torsions.
        log_z: Log of the target's normalising constant by those weights.
        log_z_error: Standard error of it.
        log_z_path: The same constant along the training's own path: summed up over its steps, or annealed.
        elbo: Mean log-weight.
        step_ess: Effective fraction of the weights that the step is learned with.
        step_ess_bound: What a trust region that acts makes of it, 1 / (1 + 2 eps_tr).
        divergence: KL from the step's density to the fitted flow, on points left out of the fit.
        trust_region_multiplier: lambda in the paper.
        entropy_multiplier: eta in the paper.
        entropy_bound: eps_ent in the paper.
        alpha: Inverse temperature on the path.
        beta: How far along the path.
        drawn: When in the step the points of these metrics were drawn: 0 at its beginning, 1 at its end, 0.5 all along.
        acceptance: Mean acceptance of the step's Markov chains.
        learning_rate: At the end of the step.
        failed: Points whose density was not finite.
        retries: How often the step was rolled back.
    """

    step: int
    gradient_steps: int
    loss: float | None = None
    gradient_norm: float | None = None
    test_loss: float | None = None
    entropy: float | None = None
    ess: float | None = None
    ess_unclipped: float | None = None
    ess_torsions: float | None = None
    ess_stiff: float | None = None
    log_z: float | None = None
    log_z_error: float | None = None
    log_z_path: float | None = None
    elbo: float | None = None
    step_ess: float | None = None
    step_ess_bound: float | None = None
    divergence: float | None = None
    trust_region_multiplier: float | None = None
    entropy_multiplier: float | None = None
    entropy_bound: float | None = None
    alpha: float | None = None
    beta: float | None = None
    drawn: float | None = None
    acceptance: float | None = None
    learning_rate: float | None = None
    failed: int = 0
    retries: int = 0

    def weighed(self, found: Reweighting) -> "StepInfo":
        """The same row with what the log-weights of the flow's points say."""
        return self._replace(
            ess=found.ess,
            ess_unclipped=found.ess_unclipped,
            log_z=found.log_z.value,
            log_z_error=found.log_z.error,
            elbo=found.elbo,
            failed=found.failed,
        )


class State(ABC):
    """All that a method needs to go on; with the generator it is what a checkpoint holds.

    Attributes:
        flow: The flow that is trained.
        step: Steps done.
        gradient_steps: Gradient steps done.
    """

    flow: Flow
    step: int
    gradient_steps: int

    @abstractmethod
    def result(self) -> Flow:
        """The flow to use: a copy, with averaged weights where the method averages them."""

    @abstractmethod
    def save(self) -> Checkpoint:
        """All of the state but the target."""

    @abstractmethod
    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over what `save` gave."""


S = TypeVar("S", bound=State)


class Method(ABC, Generic[S]):
    """A way to train a flow on a target."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Steps that are planned, at most."""

    def steps_left(self, state: S) -> int:
        """Steps that are left, as far as it is known."""
        return max(0, self.steps - state.step)

    @abstractmethod
    def init(self, flow: Flow, target: CountedTarget) -> S:
        """State of a new training."""

    @abstractmethod
    def step(self, state: S, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Move the state by one step.

        Raises:
            RunError: The step failed; the state is what it was before.
        """

    @abstractmethod
    def finished(self, state: S) -> bool:
        """Whether there is nothing left to do."""
