"""The two halves of a flow learned apart, since log q = log q(torsions) + log q(stiff | torsions)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from boltzport.errors import RunError
from boltzport.flow import Flow, HalvedFlow
from boltzport.methods.base import Checkpoint, Progress
from boltzport.methods.cmt.config import CMTConfig
from boltzport.methods.cmt.learners import Learner, Lesson
from boltzport.methods.fit import FitConfig, FitInfo, LogProb, divergence, fit, split
from boltzport.methods.optimiser import Optimiser, averaged
from boltzport.methods.stiff import descend_stiff
from boltzport.targets import CountedTarget, Purpose
from boltzport.weights import normalised

BROADER = 0.5
"""Part of the torsions that the stiff half learns at which are of the former density, the broader one."""


class Apart(Learner):
    """The torsions by the weights of the step; the stiff coordinates by path gradients where the target has forces.

    Args:
        flow: The flow.
        target: The density.
        config: Settings.
    """

    def __init__(self, flow: HalvedFlow, target: CountedTarget, config: CMTConfig) -> None:
        self.flow = flow
        self._target, self._config = target, config
        self._refining = False
        self._begin()

    def _begin(self) -> None:
        torsions, stiff = self._config.half_optimisers(refining=self._refining)
        self._torsions = Optimiser(self.flow.torsion_parameters, torsions)
        self._stiff = Optimiser(self.flow.stiff_parameters, stiff)

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last gradient step of the torsions."""
        return self._torsions.learning_rate

    def begin_refining(self) -> None:
        """Go on with the settings of the refinement."""
        self._refining = True
        self._begin()

    def learn(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> FitInfo:
        """Both halves, one after the other; the divergence is that of the whole flow."""
        flow, config = self.flow, self._config.half_fit(refining=self._refining)
        held, _ = split(lesson.data, config.hold_out)
        before = divergence(flow.log_prob, held)
        with torch.no_grad():
            log_torsions = flow.torsion_log_prob(lesson.buffer.coordinates).double()

        def fitted(log_prob: LogProb, log_drawn: Tensor, optimiser: Optimiser, stage: str) -> FitInfo:
            return _fit_half(log_prob, log_drawn, optimiser, lesson, config, stage, generator, progress)

        torsions = fitted(flow.torsion_log_prob, log_torsions, self._torsions, "torsions")
        steps = torsions.gradient_steps
        if self._target.differentiable:
            try:
                steps += self._descend(lesson, generator=generator, progress=progress)
            except RunError:
                return FitInfo(steps, math.nan, math.nan, before, math.nan)
        else:
            log_stiff = lesson.buffer.log_q + lesson.buffer.log_volume - log_torsions
            steps += fitted(flow.stiff_log_prob, log_stiff, self._stiff, "stiff").gradient_steps
        return FitInfo(steps, torsions.loss, torsions.gradient_norm, before, divergence(flow.log_prob, held))

    def averaged(self) -> Flow:
        """A copy of the flow, with averaged weights where there are any."""
        return averaged(self.flow, self._torsions, self._stiff)

    def save(self) -> Checkpoint:
        """State of the optimisers."""
        return {"torsions": self._torsions.save(), "stiff": self._stiff.save(), "refining": self._refining}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over what `save` gave."""
        self._refining = checkpoint["refining"]
        self._begin()
        self._torsions.restore(checkpoint["torsions"])
        self._stiff.restore(checkpoint["stiff"])

    def _descend(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> int:
        """Path gradients towards the density on the path, whose slope is known; the gradient steps done."""
        config = self._config.stiff_descent(refining=self._refining)
        point, flow, target = lesson.point, self.flow, self._target

        def log_density(coordinates: Tensor) -> Tensor:
            log_p, log_volume = target.evaluate(coordinates, Purpose.TRAINING)
            # With respect to positions it is q_0^(1 - beta) p^power.
            log_path = point.power * log_p + point.beta * log_volume
            if point.beta == 1.0:
                return log_path
            return log_path + (1.0 - point.beta) * flow.initial_log_prob(coordinates).double()

        descend_stiff(
            flow,
            self._stiff,
            log_density,
            _torsions_of(lesson, generator),
            config,
            generator=generator,
            progress=progress,
            span=lesson.span,
        )
        return config.gradient_steps


def _fit_half(
    log_prob: LogProb,
    log_drawn: Tensor,
    optimiser: Optimiser,
    lesson: Lesson,
    config: FitConfig,
    stage: str,
    generator: torch.Generator,
    progress: Progress,
) -> FitInfo:
    # Only changes of the divergence matter, so the former density of the half may stand for the one to be learned.
    data = lesson.data._replace(log_density=log_drawn, log_drawn=log_drawn - lesson.buffer.log_base)
    return fit(log_prob, optimiser, data, config, generator=generator, progress=progress, span=lesson.span, stage=stage)


def _torsions_of(lesson: Lesson, generator: torch.Generator) -> Callable[[int], Tensor]:
    """Draws points whose torsions are of the next density, and some of the former one."""
    next_ = normalised(lesson.buffer.log_base + lesson.log_ratio)
    former = normalised(lesson.buffer.log_base)
    cumulated = ((1.0 - BROADER) * next_ + BROADER * former).cumsum(0)

    def draw(n: int) -> Tensor:
        places = torch.rand(n, generator=generator, dtype=torch.float64) * cumulated[-1]
        return lesson.buffer.coordinates[torch.searchsorted(cumulated, places).clamp_max(len(cumulated) - 1)]

    return draw
