"""Interface of every training method: a state, which is all it needs to resume, and a step that advances it."""

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from boltzport.core.progress import Progress as Progress
from boltzport.core.weights import Reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget
from boltzport.training.state import Checkpoint as Checkpoint
from boltzport.training.state import State as State


class WeightedPoints(NamedTuple):
    """Weighted samples of a target, in time order if they have one, for methods that learn from samples.

    Attributes:
        coordinates: The points.
        log_weights: Log-weights with respect to the target; zero for unweighted samples.
    """

    coordinates: Float[Tensor, "batch dimensions"]
    log_weights: Float[Tensor, " batch"]


class StepInfo(NamedTuple):
    """A row of the training metrics; None where a method does not have the metric.

    Attributes:
        step: Number of the step, from 1.
        gradient_steps: Number of gradient steps so far.
        loss: Mean loss of the step's gradient steps.
        gradient_norm: Their mean gradient norm, before clipping.
        test_loss: Loss after the step on held-out samples of the target.
        entropy: Entropy in nats, with respect to the target's measure, of the flow that the step's points were drawn
            from: the flow before the step, or after it for methods that learn from samples.
        ess: ESS fraction of the flow's samples, reweighted to the target; the largest weights are clipped as in the
            paper.
        ess_unclipped: ESS fraction without clipping.
        ess_torsions: ESS fraction of the marginal density of the torsions, for a flow of two halves.
        ess_stiff: ESS fraction of the stiff coordinates given the torsions.
        log_z: Log of the target's normalising constant, estimated with those weights.
        log_z_error: Standard error of `log_z`.
        log_z_path: The same constant estimated along the training path: summed over its steps, or annealed.
        elbo: Mean log-weight.
        step_ess: ESS fraction of the weights that the step is fitted with.
        step_ess_bound: Value of `step_ess` expected with an active trust region, 1 / (1 + 2 eps_tr).
        divergence: KL from the step's density to the fitted flow, on points held out from the fit.
        trust_region_multiplier: lambda in the paper.
        entropy_multiplier: eta in the paper.
        entropy_bound: eps_ent in the paper.
        alpha: Inverse temperature on the path.
        beta: Position on the path, 0 to 1.
        drawn: When the points of these metrics were drawn: 0 at the start of the step, 1 at its end, 0.5 throughout.
        acceptance: Mean acceptance rate of the step's Markov chains.
        learning_rate: Learning rate at the end of the step.
        failed: Number of points whose density was not finite.
        retries: Number of times the step was rolled back.
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
        """Return the row with the metrics of the flow's log-weights filled in."""
        return self._replace(
            ess=found.ess,
            ess_unclipped=found.ess_unclipped,
            log_z=found.log_z.value,
            log_z_error=found.log_z.error,
            elbo=found.elbo,
            failed=found.failed,
        )


S = TypeVar("S", bound=State)


class Method(ABC, Generic[S]):
    """A method that trains a flow on a target."""

    @property
    @abstractmethod
    def steps(self) -> int:
        """Maximum number of steps."""

    def steps_left(self, state: S) -> int:
        """Number of remaining steps, as far as it is known."""
        return max(0, self.steps - state.step)

    def evaluations_left(self, state: S) -> float | None:  # noqa: ARG002
        """Number of remaining target evaluations, as far as it is known; None if it is not."""
        return None

    @abstractmethod
    def init(self, flow: Flow, target: CountedTarget) -> S:
        """Return the initial state of a training."""

    @abstractmethod
    def step(self, state: S, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Advance the state by one step.

        Raises:
            RunError: The step failed; the state is unchanged, as it is after an interruption.
        """

    def finished(self, state: S) -> bool:
        """Whether the training is finished."""
        return state.step >= self.steps
