"""Constrained mass transport: draw a buffer, solve the dual, fit the next density, repeat."""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import HalvedEss, effective_fraction, effective_halves, reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.base import Method, Progress, StepInfo
from boltzport.training.buffer import Buffer, Drawn, draw
from boltzport.training.fit import FitInfo
from boltzport.training.methods.cmt.apart import Apart
from boltzport.training.methods.cmt.budget import entropy_bound
from boltzport.training.methods.cmt.config import EACH, CMTConfig
from boltzport.training.methods.cmt.dual import Bounds, Solution, Status, change, solve
from boltzport.training.methods.cmt.learners import Lesson, Whole
from boltzport.training.methods.cmt.path import Multipliers, PathPoint, log_weights, log_z_ratio, steps_to_target
from boltzport.training.methods.cmt.refining import RETRIES, refining_step, remember
from boltzport.training.methods.cmt.state import CMTState
from boltzport.training.state import unchanged_on_failure

FAR_UNDER = 0.1
"""A step is rejected if the ESS of its weights is below this fraction of the ESS that its bound implies."""
ASTRAY = 1.0
"""A fit fails if it increases the divergence from the step's density by more than this, in nats."""
STEPS_OF_ENTROPY = 5
"""If the number of steps is not known, a step may lose one part in this many of the remaining entropy."""
WITHIN = (0.0, 0.97)
"""Progress of the schedule within a step, if each step has its own schedule."""
NO_WORSE = 0.97
"""The last flow is kept if its ESS is at least this fraction of the best since the annealing."""
SLOWEST = 0.05
"""Scale factor of the learning rate in the last refining step."""


class Attempt(NamedTuple):
    """One attempt at a step: the solution of the dual and the fit; no fit if the weights were too uneven."""

    solution: Solution
    step_ess: float
    fit: FitInfo | None
    failure: str


class CMT(Method[CMTState]):
    """Constrained mass transport, the paper's algorithm.

    Args:
        config: Settings.
    """

    def __init__(self, config: CMTConfig) -> None:
        self.config = config
        self._dimension = 0

    @property
    def steps(self) -> int:
        """Maximum number of steps."""
        return self.config.steps + self.config.refinements(self._dimension)

    def steps_left(self, state: CMTState) -> int:
        """Number of remaining steps, estimated from the path."""
        if state.arrived is not None:
            return max(0, state.refine - state.refined)
        left = self.config.steps - state.step
        if self.config.arrive:
            left = min(left, steps_to_target(state.multipliers))
        return left + self.config.refinements(self._dimension)

    def evaluations_left(self, state: CMTState) -> float:
        """Number of remaining target evaluations, estimated from the path, within the budget."""
        left, config = self.steps_left(state), self.config
        refining = left if state.arrived is not None else config.refinements(self._dimension)
        planned = (left - refining) * config.step_evaluations(refining=False)
        planned += refining * config.step_evaluations(refining=True)
        return float(min(planned, config.budget - state.target.ledger.cost))

    def init(self, flow: Flow, target: CountedTarget) -> CMTState:
        """Return the initial state of a training; the flow is the initial density."""
        self._dimension = flow.dimension
        return CMTState(flow, target, self.config)

    def finished(self, state: CMTState) -> bool:
        """Whether all steps are done, the flow has converged, or the next step would exceed the budget."""
        if 0 < self.config.patience <= state.idle or (state.refining and state.refined >= state.refine):
            return True
        return state.target.ledger.cost + self.config.step_evaluations(refining=state.refining) > self.config.budget

    def step(self, state: CMTState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Do one annealing or refining step; a failed one is retried with half the trust region.

        If it was the fit that failed, the learning rate is halved as well.
        """
        with unchanged_on_failure(state):
            return self._step(state, generator, progress)

    def _step(self, state: CMTState, generator: torch.Generator, progress: Progress) -> StepInfo:
        if state.refining and isinstance(state.learner, Whole):
            return refining_step(state, state.learner, generator=generator, progress=progress)
        if state.refining and not state.refined:
            state.learner.begin_refining(renew=state.renew)
        points = self.config.refine_buffer if state.refining else self.config.buffer_size
        fresh, failed = draw(state.flow, state.target, points, generator=generator, progress=progress)
        if state.refining:
            state.keep_if_best(reweighting(ranks().gather(Drawn(fresh, failed).log_weights)).ess)
        buffer = state.formers.join(state.flow, fresh)
        if self.config.reuse:
            buffer = buffer.part(torch.randperm(buffer.size, generator=generator, device=generator.device))
        bounds = self._bounds(state, fresh)
        before = copy.deepcopy((state.flow.state_dict(), state.learner.save()))
        attempt, retries, fits = self._attempt(state, buffer, bounds, generator, progress), 0, 0
        while attempt.failure:
            if retries == RETRIES:
                raise RunError(
                    f"step {state.step + 1} failed {1 + RETRIES} times, the last time with a trust region of "
                    f"{bounds.trust_region:.3g}: {attempt.failure}. The flow of step {state.step} is kept; "
                    "a larger buffer_size or a smaller learning_rate may help"
                )
            state.flow.load_state_dict(before[0])
            state.learner.restore(before[1])
            retries += 1
            # A smaller learning rate does not help where the weights fail.
            fits += attempt.fit is not None
            # Without a trust region, the retry gets one: half of the divergence that failed.
            largest = min(bounds.trust_region, attempt.solution.change.divergence)
            bounds = Bounds(trust_region=largest / 2, entropy=bounds.entropy)
            attempt = self._attempt(state, buffer, bounds, generator, progress, slower=0.5**fits)
        info = self._done(state, fresh, bounds, attempt, generator, failed=failed, retries=retries)
        if state.refined and self.finished(state):
            self._settle(state, generator, progress)
        return info

    def _settle(self, state: CMTState, generator: torch.Generator, progress: Progress) -> None:
        """Return to the best flow since the annealing if the last one is worse."""
        points = self.config.step_evaluations(refining=True)
        points = min(self.config.refine_buffer, int(min(points, self.config.budget - state.target.ledger.cost)))
        if points < self.config.refine_batch:
            return
        drawn = draw(state.flow, state.target, points, generator=generator, progress=progress)
        if reweighting(ranks().gather(drawn.log_weights)).ess < NO_WORSE * state.best_refined:
            state.back_to_best()

    def _bounds(self, state: CMTState, fresh: Buffer) -> Bounds:
        trust_region, entropy = self.config.trust_region, self.config.entropy
        if state.refining:
            return Bounds(trust_region=trust_region)
        if entropy == "auto" and self.config.arrive:
            bound = entropy_bound(*_logs(fresh), steps_left=STEPS_OF_ENTROPY)
            # Without a trust region, the entropy alone bounds the step.
            return Bounds(
                trust_region=trust_region, entropy=max(bound, trust_region) if math.isfinite(trust_region) else bound
            )
        if entropy == "auto":
            left = math.ceil(self.config.anneal * self.config.steps) - state.step
            entropy = entropy_bound(*_logs(fresh), steps_left=left)
        return Bounds(trust_region=trust_region, entropy=entropy)

    def _solve(self, buffer: Buffer, bounds: Bounds) -> Solution:
        """Solve the dual on the log densities of all ranks."""
        (log_q, log_p), log_base = _logs(buffer), ranks().gather(buffer.log_base)
        if not self.config.multiplier:
            return solve(log_q, log_p, bounds, log_base=log_base)
        constant = Multipliers(self.config.multiplier, 0.0)
        reached = change(log_q, log_p, constant, log_base)
        return Solution(constant, reached, Status.SOLVED, "constant multiplier")

    def _attempt(
        self,
        state: CMTState,
        buffer: Buffer,
        bounds: Bounds,
        generator: torch.Generator,
        progress: Progress,
        *,
        slower: float = 1.0,
    ) -> Attempt:
        solution = self._solve(buffer, bounds)
        log_ratio = log_weights(buffer.log_q, buffer.log_p, solution.multipliers) - solution.change.log_z
        step_ess = effective_fraction(ranks().gather(log_ratio + buffer.log_base))
        # Without a trust region there is no bound on the ESS to violate.
        promised = 1.0 / (1.0 + 2.0 * bounds.trust_region)
        if step_ess < FAR_UNDER * promised:
            return Attempt(solution, step_ess, None, f"the step's weights have an ESS fraction of {step_ess:.2%}")
        point = PathPoint(alpha=1.0, beta=1.0) if state.refining else state.point.after(solution.multipliers)
        span, rate = self._schedule(state)
        lesson = Lesson(buffer, log_ratio, solution, point, span, state.log_initial, slower * rate)
        fitted = state.learner.learn(lesson, generator=generator, progress=progress)
        return Attempt(solution, step_ess, fitted, _failure(fitted, bounds))

    def _schedule(self, state: CMTState) -> tuple[tuple[float, float], float]:
        """Progress of the learning rate schedule over the next step, and a scale factor of the rate."""
        if state.refining:
            # The rate falls within each step, so that the step ends with little noise, and from step to step.
            fall = 0.5 * (1.0 + math.cos(math.pi * state.refined / state.refine))
            return WITHIN, SLOWEST + (1.0 - SLOWEST) * fall
        if self.config.arrive:
            return WITHIN, 1.0
        return (state.step / self.config.steps, (state.step + 1) / self.config.steps), 1.0

    def _done(
        self,
        state: CMTState,
        fresh: Buffer,
        bounds: Bounds,
        attempt: Attempt,
        generator: torch.Generator,
        *,
        failed: int,
        retries: int,
    ) -> StepInfo:
        assert attempt.fit is not None
        found = reweighting(ranks().gather(Drawn(fresh, failed).log_weights))
        multipliers = attempt.solution.multipliers
        self._advance(state, fresh, multipliers)
        state.multipliers.append(multipliers.trust_region)
        state.step += 1
        state.gradient_steps += attempt.fit.gradient_steps
        better = found.ess > state.best_ess * 1.01
        state.best_ess = max(found.ess, state.best_ess)
        state.idle = state.idle + 1 if multipliers == (0.0, 0.0) and not better else 0
        halves = _halves(state, self.config, generator)
        state.target.ledger.agree()
        remember(state)
        if not state.refining and (state.step >= self.config.steps or (self.config.arrive and state.point.arrived)):
            state.arrive()
        return StepInfo(
            step=state.step,
            gradient_steps=state.gradient_steps,
            loss=attempt.fit.loss,
            gradient_norm=attempt.fit.gradient_norm,
            entropy=-float(ranks().gather(fresh.log_q).mean()),
            ess_torsions=halves.torsions if halves else None,
            ess_stiff=halves.stiff if halves else None,
            # Before the path reaches the target, this is the constant of another density.
            log_z_path=state.log_z_path if state.point == PathPoint(alpha=1.0, beta=1.0) else None,
            drawn=0.0,
            step_ess=attempt.step_ess,
            step_ess_bound=1.0 / (1.0 + 2.0 * bounds.trust_region),
            divergence=attempt.fit.after,
            trust_region_multiplier=multipliers.trust_region,
            entropy_multiplier=multipliers.entropy,
            entropy_bound=bounds.entropy,
            alpha=state.point.alpha,
            beta=state.point.beta,
            learning_rate=state.learner.learning_rate,
            retries=retries,
        ).weighed(found)

    @torch.no_grad()
    def _advance(self, state: CMTState, fresh: Buffer, multipliers: Multipliers) -> None:
        """Advance to the next density on the path."""
        there = state.point.after(multipliers)
        if there != state.point and math.isfinite(state.log_z_path):
            log_initial = state.log_initial(fresh.coordinates).double() - fresh.log_volume
            (log_q, log_p), log_initial = _logs(fresh), ranks().gather(log_initial)
            log_here, log_there = (point.log_density(log_initial, log_p) for point in (state.point, there))
            state.log_z_path += log_z_ratio(log_q, log_here, log_there)
        state.point = there


@torch.no_grad()
def _halves(state: CMTState, config: CMTConfig, generator: torch.Generator) -> HalvedEss | None:
    """ESS fractions of the two halves after the step, if they are trained separately."""
    if not isinstance(state.learner, Apart):
        return None
    count = ranks().each(config.halves(refining=state.refining))
    drawn = state.learner.flow.sample_by_halves(count, EACH, generator=generator)
    log_p, log_volume = state.target.evaluate(drawn.coordinates, Purpose.TRAINING)
    return effective_halves(ranks().gather((log_p + log_volume - drawn.log_q.double()).view(count, EACH)))


def _logs(buffer: Buffer) -> tuple[Tensor, Tensor]:
    """Log densities log q and log p of the points of all ranks."""
    return ranks().gather(buffer.log_q), ranks().gather(buffer.log_p)


def _failure(fitted: FitInfo, bounds: Bounds) -> str:
    if not math.isfinite(fitted.loss):
        return "the gradient is not finite"
    # Without a trust region a fit may end anywhere, which this variant is meant to show.
    if math.isfinite(bounds.trust_region) and fitted.after > fitted.before + ASTRAY:
        return f"the fit increased the divergence from its density from {fitted.before:.3g} to {fitted.after:.3g} nats"
    return ""
