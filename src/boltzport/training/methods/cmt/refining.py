"""Refinement of a whole flow after the annealing: path gradients on fresh points, with anchors that keep the modes."""

import copy
import math

import torch

from boltzport.core.errors import RunError
from boltzport.training.anchor import draw_anchors
from boltzport.training.base import Progress, StepInfo
from boltzport.training.methods.cmt.learners import Whole
from boltzport.training.methods.cmt.state import CMTState
from boltzport.training.refine import refine

RETRIES = 3
"""Number of retries of a step, each with half the trust region or learning rate."""
PROPOSALS = (0.25, 0.4, 0.55, 0.7, 1.0)
"""The flows after these fractions of the annealing steps are the proposals of the anchors."""
EVERY = 4
"""Interval, in steps, at which flows are kept if the number of steps is not known in advance."""
WORSE = 0.5
"""A refining step is rolled back, and the rate halved, if the ESS falls below this fraction of the best one."""


def refining_step(state: CMTState, learner: Whole, *, generator: torch.Generator, progress: Progress) -> StepInfo:
    """Follow path gradients on fresh points; roll back if the flow gets much worse.

    Raises:
        RunError: Every retry failed; the caller restores the state.
    """
    try:
        return _refined(state, learner, generator, progress)
    except RunError as error:
        raise RunError(f"step {state.step + 1}: {error}. The flow of step {state.step} is kept") from error


def remember(state: CMTState) -> None:
    """Keep the weights of some flows of the annealing, to draw anchors from."""
    config = state.config
    if state.refining or not (config.refine and config.anchors) or not isinstance(state.learner, Whole):
        return
    planned = {math.ceil(config.steps * part) for part in PROPOSALS}
    if state.step % EVERY == 0 if config.arrive else state.step in planned:
        state.proposals.append(state.weights())


def _refined(state: CMTState, learner: Whole, generator: torch.Generator, progress: Progress) -> StepInfo:

    config = state.config
    if not state.refined:
        learner.begin_refining()
        _draw_anchors(state, generator, progress)
    retries = 0
    while True:
        before = copy.deepcopy((state.flow.state_dict(), learner.save()))
        try:
            refined = refine(
                state.flow,
                learner.optimiser,
                state.target,
                config.refinement,
                state.anchors,
                generator=generator,
                progress=progress,
                span=(state.refined / state.refine, (state.refined + 1) / state.refine),
            )
            if refined.flow.ess >= WORSE * state.best_ess or retries == RETRIES:
                break
        except RunError:
            if retries == RETRIES:
                raise
        state.flow.load_state_dict(before[0])
        learner.restore(before[1])
        learner.optimiser.scale /= 2
        retries += 1
    worse = refined.flow.ess < WORSE * state.best_ess
    # If no rate reaches the best ESS again, it must be lowered, or every further step would be rolled back.
    state.best_ess = refined.flow.ess if worse else max(refined.flow.ess, state.best_ess)
    state.target.ledger.agree()
    state.step += 1
    state.gradient_steps += config.gradient_steps
    return StepInfo(
        step=state.step,
        gradient_steps=state.gradient_steps,
        gradient_norm=refined.gradient_norm,
        drawn=0.5,
        trust_region_multiplier=0.0,
        entropy_multiplier=0.0,
        alpha=state.point.alpha,
        beta=state.point.beta,
        learning_rate=learner.learning_rate,
        retries=retries,
    ).weighed(refined.flow)


def _draw_anchors(state: CMTState, generator: torch.Generator, progress: Progress) -> None:
    if state.proposals:
        state.anchors = draw_anchors(
            state.flow,
            state.proposals,
            state.target,
            state.config.anchors,
            generator=generator,
            progress=progress,
        )
        state.proposals = []
