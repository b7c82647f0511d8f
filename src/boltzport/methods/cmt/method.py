"""Constrained mass transport: draw a buffer, solve the dual, fit the next density, repeat."""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor

from boltzport.errors import RunError
from boltzport.flow import Flow
from boltzport.methods.anchor import Anchors, draw_anchors
from boltzport.methods.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.methods.buffer import Buffer, Drawn, draw
from boltzport.methods.cmt.budget import entropy_bound
from boltzport.methods.cmt.config import CMTConfig
from boltzport.methods.cmt.dual import Bounds, Solution, Status, change, solve
from boltzport.methods.cmt.path import Multipliers, PathPoint, log_weights, log_z_ratio
from boltzport.methods.cmt.reuse import Formers
from boltzport.methods.fit import FitData, FitInfo, fit
from boltzport.methods.optimiser import Optimiser
from boltzport.methods.refine import refine
from boltzport.targets import CountedTarget
from boltzport.weights import effective_fraction, reweighting

RETRIES = 3
"""How often a step is tried again with half of the trust region."""
FAR_UNDER = 0.1
"""A step is not tried where its weights have less than this part of the effective size that its bound promises."""
ASTRAY = 1.0
"""A fit has failed when it ends farther from the step's density than it began, by more than this, nats."""

BROADER = (0.25, 0.4, 0.55, 0.7, 1.0)
"""The flows after these parts of the annealing steps are the proposals of the anchors."""

WORSE = 0.5
"""A refining step that leaves less than this part of the best effective size is rolled back, and the rate halved."""


class CMTState(State):
    """State of a training.

    Args:
        flow: The flow that is trained.
        target: The density.
        config: Settings.
    """

    def __init__(self, flow: Flow, target: CountedTarget, config: CMTConfig) -> None:
        self.flow = flow
        self.target = target
        self.config = config
        self.step = 0
        self.gradient_steps = 0
        self.point = PathPoint()
        self.log_z_path = 0.0
        self.optimiser = Optimiser(flow, config.optimiser)
        self.formers = Formers(config.reuse)
        self.best_ess = 0.0
        self.idle = 0
        self.proposals: list[dict[str, Tensor]] = []
        self.anchors: Anchors | None = None

    def result(self) -> Flow:
        """The flow to use."""
        result = self.optimiser.averaged(self.flow)
        assert isinstance(result, Flow)
        return result

    def save(self) -> Checkpoint:
        """All of the state but the target."""
        return {
            "flow": self.flow.state_dict(),
            "step": self.step,
            "gradient_steps": self.gradient_steps,
            "point": [self.point.alpha, self.point.beta],
            "log_z_path": self.log_z_path,
            "optimiser": self.optimiser.save(),
            "formers": self.formers.save(),
            "best_ess": self.best_ess,
            "idle": self.idle,
            "proposals": self.proposals,
            "anchors": list(self.anchors) if self.anchors is not None else None,
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over what `save` gave."""
        self.flow.load_state_dict(checkpoint["flow"])
        self.step = checkpoint["step"]
        self.gradient_steps = checkpoint["gradient_steps"]
        alpha, beta = checkpoint["point"]
        self.point = PathPoint(alpha=alpha, beta=beta)
        self.log_z_path = checkpoint["log_z_path"]
        if self.step > self.config.steps:
            self.optimiser = Optimiser(self.flow, self.config.refining)
        self.optimiser.restore(checkpoint["optimiser"])
        self.formers.restore(checkpoint["formers"])
        self.best_ess, self.idle = checkpoint["best_ess"], checkpoint["idle"]
        self.proposals = checkpoint["proposals"]
        self.anchors = Anchors(*checkpoint["anchors"]) if checkpoint["anchors"] is not None else None


class Attempt(NamedTuple):
    """One try at a step: what the dual gave, and how the fit went; no fit where the weights were too uneven."""

    solution: Solution
    step_ess: float
    fit: FitInfo | None
    failure: str


class CMT(Method[CMTState]):
    """The paper's algorithm.

    Args:
        config: Settings.
    """

    def __init__(self, config: CMTConfig) -> None:
        self.config = config

    @property
    def steps(self) -> int:
        """Annealing steps that are planned."""
        return self.config.steps + self.config.refine

    def init(self, flow: Flow, target: CountedTarget) -> CMTState:
        """State of a new training; the flow is the initial density."""
        return CMTState(flow, target, self.config)

    def finished(self, state: CMTState) -> bool:
        """Whether all steps are done, or the flow has converged."""
        return state.step >= self.steps or 0 < self.config.patience <= state.idle

    def step(self, state: CMTState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """One annealing step, tried again with half of the trust region where it fails; then refining steps."""
        if state.step >= self.config.steps:
            return self._refine(state, generator=generator, progress=progress)
        fresh, failed = draw(state.flow, state.target, self.config.buffer_size, generator=generator, progress=progress)
        buffer = state.formers.join(state.flow, fresh)
        if self.config.reuse:
            buffer = buffer.part(torch.randperm(buffer.size, generator=generator))
        bounds = self._bounds(state, fresh)
        before = copy.deepcopy((state.flow.state_dict(), state.optimiser.save()))
        attempt, retries = self._attempt(state, buffer, bounds, generator, progress), 0
        while attempt.failure:
            state.flow.load_state_dict(before[0])
            state.optimiser.restore(before[1])
            if retries == RETRIES:
                raise RunError(
                    f"step {state.step + 1} failed {1 + RETRIES} times, down to a trust region of "
                    f"{bounds.trust_region:.3g}: {attempt.failure}. The flow of step {state.step} is kept; "
                    "a larger buffer_size or a smaller learning_rate may help"
                )
            retries += 1
            # Without a trust region the retry gets one: half of the divergence that failed.
            largest = min(bounds.trust_region, attempt.solution.change.divergence)
            bounds = Bounds(trust_region=largest / 2, entropy=bounds.entropy)
            attempt = self._attempt(state, buffer, bounds, generator, progress)
        return self._done(state, fresh, bounds, attempt, failed=failed, retries=retries)

    def _refine(self, state: CMTState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Gradient steps along path gradients, on fresh points; rolled back where the flow gets far worse."""
        before = copy.deepcopy(state.save())
        try:
            return self._refined(state, generator, progress)
        except RunError as error:
            state.restore(before)
            raise RunError(f"step {state.step + 1}: {error}. The flow of step {state.step} is kept") from error

    def _refined(self, state: CMTState, generator: torch.Generator, progress: Progress) -> StepInfo:
        config = self.config
        if state.step == config.steps:
            state.optimiser = Optimiser(state.flow, config.refining)
            self._draw_anchors(state, generator, progress)
        retries = 0
        while True:
            before = copy.deepcopy((state.flow.state_dict(), state.optimiser.save()))
            try:
                refined = refine(
                    state.flow,
                    state.optimiser,
                    state.target,
                    config.refinement,
                    state.anchors,
                    generator=generator,
                    progress=progress,
                    span=((state.step - config.steps) / config.refine, (state.step - config.steps + 1) / config.refine),
                )
                if refined.flow.ess >= WORSE * state.best_ess or retries == RETRIES:
                    break
            except RunError:
                if retries == RETRIES:
                    raise
            state.flow.load_state_dict(before[0])
            state.optimiser.restore(before[1])
            state.optimiser.scale /= 2
            retries += 1
        worse = refined.flow.ess < WORSE * state.best_ess
        # What no rate reaches any more is no measure: each step to come would be rolled back, and the rate vanish.
        state.best_ess = refined.flow.ess if worse else max(refined.flow.ess, state.best_ess)
        state.step += 1
        state.gradient_steps += config.gradient_steps
        return StepInfo(
            step=state.step,
            gradient_steps=state.gradient_steps,
            gradient_norm=refined.gradient_norm,
            ess=refined.flow.ess,
            ess_unclipped=refined.flow.ess_unclipped,
            log_z=refined.flow.log_z.value,
            log_z_error=refined.flow.log_z.error,
            elbo=refined.flow.elbo,
            drawn=0.5,
            trust_region_multiplier=0.0,
            entropy_multiplier=0.0,
            alpha=state.point.alpha,
            beta=state.point.beta,
            learning_rate=state.optimiser.learning_rate,
            failed=refined.flow.failed,
            retries=retries,
        )

    def _remember(self, state: CMTState) -> None:
        """Keep the weights of some of the flows on the way, for anchors."""
        planned = {math.ceil(self.config.steps * part) for part in BROADER}
        if self.config.refine and self.config.anchors and state.step in planned:
            state.proposals.append({name: value.clone() for name, value in state.flow.state_dict().items()})

    def _draw_anchors(self, state: CMTState, generator: torch.Generator, progress: Progress) -> None:
        if state.proposals:
            state.anchors = draw_anchors(
                state.flow,
                state.proposals,
                state.target,
                self.config.anchors,
                generator=generator,
                progress=progress,
            )
            state.proposals = []

    def _bounds(self, state: CMTState, fresh: Buffer) -> Bounds:
        entropy = self.config.entropy
        if entropy == "auto":
            left = math.ceil(self.config.anneal * self.config.steps) - state.step
            entropy = entropy_bound(fresh.log_q, fresh.log_p, steps_left=left)
        return Bounds(trust_region=self.config.trust_region, entropy=entropy)

    def _solve(self, buffer: Buffer, bounds: Bounds) -> Solution:
        if not self.config.multiplier:
            return solve(buffer.log_q, buffer.log_p, bounds, log_base=buffer.log_base)
        constant = Multipliers(self.config.multiplier, 0.0)
        reached = change(buffer.log_q, buffer.log_p, constant, buffer.log_base)
        return Solution(constant, reached, Status.SOLVED, "constant multiplier")

    def _attempt(
        self, state: CMTState, buffer: Buffer, bounds: Bounds, generator: torch.Generator, progress: Progress
    ) -> Attempt:
        solution = self._solve(buffer, bounds)
        log_ratio = log_weights(buffer.log_q, buffer.log_p, solution.multipliers) - solution.change.log_z
        step_ess = effective_fraction(log_ratio + buffer.log_base)
        # Without a trust region there is no promise to break.
        promised = 1.0 / (1.0 + 2.0 * bounds.trust_region)
        if step_ess < FAR_UNDER * promised:
            return Attempt(solution, step_ess, None, f"the step's weights have an effective size of {step_ess:.2%}")
        data = FitData(
            coordinates=buffer.coordinates,
            log_weights=buffer.log_base + log_ratio,
            log_density=buffer.log_q + log_ratio + buffer.log_volume,
        )
        span = (state.step / self.config.steps, (state.step + 1) / self.config.steps)
        fitted = fit(
            state.flow, state.optimiser, data, self.config.fit, generator=generator, progress=progress, span=span
        )
        return Attempt(solution, step_ess, fitted, _failure(fitted, bounds))

    def _done(
        self, state: CMTState, fresh: Buffer, bounds: Bounds, attempt: Attempt, *, failed: int, retries: int
    ) -> StepInfo:
        assert attempt.fit is not None
        found = reweighting(Drawn(fresh, failed).log_weights)
        multipliers = attempt.solution.multipliers
        self._advance(state, fresh, multipliers)
        state.step += 1
        state.gradient_steps += attempt.fit.gradient_steps
        better = found.ess > state.best_ess * 1.01
        state.best_ess = max(found.ess, state.best_ess)
        state.idle = state.idle + 1 if multipliers == (0.0, 0.0) and not better else 0
        self._remember(state)
        return StepInfo(
            step=state.step,
            gradient_steps=state.gradient_steps,
            loss=attempt.fit.loss,
            gradient_norm=attempt.fit.gradient_norm,
            entropy=-float(fresh.log_q.mean()),
            ess=found.ess,
            ess_unclipped=found.ess_unclipped,
            log_z=found.log_z.value,
            log_z_error=found.log_z.error,
            # Short of the target it is the constant of another density.
            log_z_path=state.log_z_path if state.point == PathPoint(alpha=1.0, beta=1.0) else None,
            elbo=found.elbo,
            drawn=0.0,
            step_ess=attempt.step_ess,
            step_ess_bound=1.0 / (1.0 + 2.0 * bounds.trust_region),
            divergence=attempt.fit.after,
            trust_region_multiplier=multipliers.trust_region,
            entropy_multiplier=multipliers.entropy,
            entropy_bound=bounds.entropy,
            alpha=state.point.alpha,
            beta=state.point.beta,
            learning_rate=state.optimiser.learning_rate,
            failed=failed,
            retries=retries,
        )

    @torch.no_grad()
    def _advance(self, state: CMTState, fresh: Buffer, multipliers: Multipliers) -> None:
        """Go one density further on the path."""
        there = state.point.after(multipliers)
        if there != state.point and math.isfinite(state.log_z_path):
            log_initial = state.flow.initial_log_prob(fresh.coordinates).double() - fresh.log_volume
            log_here, log_there = (point.log_density(log_initial, fresh.log_p) for point in (state.point, there))
            state.log_z_path += log_z_ratio(fresh.log_q, log_here, log_there)
        state.point = there


def _failure(fitted: FitInfo, bounds: Bounds) -> str:
    if not math.isfinite(fitted.loss):
        return "the gradient is not finite"
    # Without a trust region a fit may well end anywhere: that is what the variant is there to show.
    if math.isfinite(bounds.trust_region) and fitted.after > fitted.before + ASTRAY:
        return f"the fit went from {fitted.before:.3g} to {fitted.after:.3g} nats from its density"
    return ""
