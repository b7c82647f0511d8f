"""Separate training of the two halves of a flow: log q = log q(torsions) + log q(stiff | torsions)."""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import effective_fraction, normalised
from boltzport.flows import Flow, HalvedFlow
from boltzport.targets import CountedTarget, Purpose
from boltzport.training.base import Checkpoint, Progress
from boltzport.training.fit import FitConfig, FitData, FitInfo, LogProb, divergence, fit, split
from boltzport.training.methods.cmt.chains import Chains
from boltzport.training.methods.cmt.config import CMTConfig
from boltzport.training.methods.cmt.learners import Learner, Lesson
from boltzport.training.methods.cmt.pool import Pool
from boltzport.training.methods.cmt.wide import Wide, draw_wide, mixed
from boltzport.training.optimiser import Optimiser, averaged
from boltzport.training.stiff import KnownPoints, descend_stiff

QUARTER = 0.25
"""A quarter of a full turn."""
WORTHY = 0.25
"""ESS fraction above which a fit uses weighted points in addition to chains; each point costs the same."""
UNWEIGHTED = 0.5
"""Fraction of the stiff half's training torsions that are used without weights: they come from broader densities."""
HALFWAY = 0.5
"""Position on the path (beta) after which a flow is kept as the broader one."""
WORSE = 0.02
"""Increase of the held-out divergence, in nats, above which a fit of the refinement is undone."""


class Apart(Learner):
    """Fits the torsions to the step's weights, and the stiff coordinates by path gradients if the target has forces.

    Args:
        flow: Flow of two halves.
        target: Target density.
        config: Settings.
    """

    def __init__(self, flow: HalvedFlow, target: CountedTarget, config: CMTConfig) -> None:
        self.flow = flow
        self._target, self._config = target, config
        self._refining, self._renew = False, 0
        self._pool = Pool(config.pool)
        # Torsions are limited to a quarter turn, so that a trajectory does not spin a free rotor.
        widest = flow.unit.clone()
        widest[flow.torsions] *= QUARTER
        self._chains = Chains(config.chains, leapfrogs=config.leapfrogs, widest=widest)
        self._chains_refined = False
        self._broader: HalvedFlow | None = None
        self._begin()

    def _begin(self) -> None:
        torsions, stiff = self._config.half_optimisers(refining=self._refining)
        self._torsions = Optimiser(self.flow.torsion_parameters, torsions)
        self._stiff = Optimiser(self.flow.stiff_parameters, stiff)

    @property
    def learning_rate(self) -> float:
        """Learning rate of the last gradient step of the torsions."""
        return self._torsions.learning_rate

    def begin_refining(self, *, renew: int = 0) -> None:
        """Switch to the settings of the refinement; the next step retrains the stiff half if `renew` is not zero."""
        self._refining, self._renew = True, renew
        self._begin()

    def learn(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> FitInfo:
        """Fit one half after the other; the divergence is that of the whole flow."""
        flow, config = self.flow, self._config.half_fit(refining=self._refining)
        held, train = split(lesson.data, config.hold_out)
        # A new stiff half is not judged by the former one: a run ends with the best flow of its refinement.
        before = math.inf if self._renew else divergence(flow.log_prob, held)
        for optimiser in (self._torsions, self._stiff):
            optimiser.scale = lesson.rate
        wide = self._draw_wide(lesson, generator)
        self._move_chains(lesson, generator=generator, progress=progress)
        torsions = self._fit_torsions(held, train, wide, lesson, config, generator=generator, progress=progress)
        if not math.isfinite(torsions.loss):
            return torsions
        steps = torsions.gradient_steps
        if self._target.differentiable:
            try:
                steps += self._descend(lesson, wide, generator=generator, progress=progress)
            except RunError:
                return FitInfo(steps, math.nan, math.nan, before, math.nan)
        else:
            fitted = fit(
                flow.stiff_log_prob,
                self._stiff,
                _half(train, flow.stiff_log_prob, train.coordinates),
                config,
                generator=generator,
                progress=progress,
                span=lesson.span,
                stage="stiff",
                held=_half(held, flow.stiff_log_prob, held.coordinates),
            )
            steps += fitted.gradient_steps
        annealing = not self._refining and self._broader is None
        if self._config.broader and annealing and lesson.point.beta > HALFWAY:
            self._remember(flow.state_dict())
        return FitInfo(steps, torsions.loss, torsions.gradient_norm, before, divergence(flow.log_prob, held))

    def averaged(self) -> Flow:
        """Return a copy of the flow, with averaged weights if there are any."""
        return averaged(self.flow, self._torsions, self._stiff)

    def save(self) -> Checkpoint:
        """Return the state of the optimisers, points and chains."""
        return {
            "torsions": self._torsions.save(),
            "stiff": self._stiff.save(),
            "refining": self._refining,
            "renew": self._renew,
            "pool": self._pool.save(),
            "chains": self._chains.save(),
            "chains_refined": self._chains_refined,
            "broader": None if self._broader is None else copy.deepcopy(self._broader.state_dict()),
        }

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint written by `save`."""
        self._refining = checkpoint["refining"]
        # Older checkpoints have no `renew`, `chains` or `broader`.
        self._renew = checkpoint.get("renew", 0)
        self._begin()
        self._torsions.restore(checkpoint["torsions"])
        self._stiff.restore(checkpoint["stiff"])
        self._pool.restore(checkpoint["pool"])
        if "chains" in checkpoint:
            self._chains.restore(checkpoint["chains"])
            self._chains_refined = checkpoint["chains_refined"]
        broader = checkpoint.get("broader")
        self._broader = None
        if broader is not None:
            self._remember(broader)

    def _remember(self, weights: Mapping[str, Tensor]) -> None:
        """Keep a flow with these weights as the broader one."""
        self._broader = copy.deepcopy(self.flow).requires_grad_(requires_grad=False)
        self._broader.load_state_dict(weights)

    @torch.no_grad()
    def _draw_wide(self, lesson: Lesson, generator: torch.Generator) -> Wide | None:
        """Draw points with torsions of the broader flow, once the path has reached the target."""
        n = self._config.broader_points
        if not self._refining or self._broader is None or not n:
            return None
        wide = draw_wide(self.flow, self._broader, self._target, lesson, n, generator=generator)
        return wide if len(wide.coordinates) else None

    def _log_density(self, lesson: Lesson) -> Callable[[Tensor], Tensor]:
        """Log density on the path, up to a constant, with respect to the coordinates."""
        point, target = lesson.point, self._target

        def log_density(coordinates: Tensor) -> Tensor:
            log_p, log_volume = target.evaluate(coordinates, Purpose.TRAINING)
            # With respect to positions it is q_0^(1 - beta) p^power.
            log_path = point.power * log_p + point.beta * log_volume
            if point.beta == 1.0:
                return log_path
            return log_path + (1.0 - point.beta) * lesson.log_initial(coordinates).double()

        return log_density

    def _move_chains(self, lesson: Lesson, *, generator: torch.Generator, progress: Progress) -> None:
        """Move the chains to the density of the step: by resampling on the path, then by proposals of the flow."""
        if not (self._config.chains and self._target.differentiable):
            return
        buffer, log_density = lesson.buffer, self._log_density(lesson)
        if self._refining and self._chains_refined:
            log_weights = buffer.log_p - buffer.log_q
            self._chains.propose(buffer.coordinates, log_weights, self.flow.log_prob, log_density, generator=generator)
        else:
            self._chains.gather(buffer.coordinates, lesson.log_ratio, log_density, generator=generator)
            self._chains_refined = self._refining
        self._chains.move(log_density, generator=generator, progress=progress)

    def _fit_torsions(
        self,
        held: FitData,
        train: FitData,
        wide: Wide | None,
        lesson: Lesson,
        config: FitConfig,
        *,
        generator: torch.Generator,
        progress: Progress,
    ) -> FitInfo:
        """Fit the torsions to the step's weights; after the annealing, also to those of previous steps."""
        log_prob, places = self.flow.log_prob_of_torsions, self.flow.torsions
        data = _half(train, log_prob, train.coordinates[:, places])
        held = _half(held, log_prob, held.coordinates[:, places])
        if wide is not None and self._broader is not None:
            data = mixed(data, wide, self._broader)
        if self._chains.size:
            # The chains held out to judge a fit are the same in every refining step, so no such fit learns from them.
            held, equal = split(_equal(self._chains.points.coordinates[:, places]), config.hold_out)
            weighted = self._refining and effective_fraction(ranks().gather(data.log_weights)) > WORTHY
            parts = [data, equal] if weighted else [equal]
        else:
            parts = [data]
        if self._refining:
            for part in parts:
                self._pool.add(part)
            data = self._pool.data
        else:
            (data,) = parts
        before = copy.deepcopy(([parameter.data for parameter in self.flow.torsion_parameters], self._torsions.save()))
        fitted = fit(
            log_prob,
            self._torsions,
            data,
            config,
            generator=generator,
            progress=progress,
            span=lesson.span,
            stage="torsions",
            held=held,
        )
        if self._refining and fitted.after > fitted.before + WORSE:
            # A few heavy points spoiled the fit; the next step tries again with other points.
            for parameter, former in zip(self.flow.torsion_parameters, before[0], strict=True):
                parameter.data.copy_(former)
            self._torsions.restore(before[1])
        return fitted

    def _descend(self, lesson: Lesson, wide: Wide | None, *, generator: torch.Generator, progress: Progress) -> int:
        """Follow path gradients towards the density on the path, whose slope is known; return the number of steps."""
        config, optimiser, flow = self._config.stiff_descent(refining=self._refining), self._stiff, self.flow
        renewed = self._renew > 0
        if renewed:
            config = replace(config, gradient_steps=self._renew)
            flow.renew_stiff(generator=generator)
            ranks().follow(list(flow.state_dict().values()))
            optimiser = Optimiser(flow.stiff_parameters, self._config.renewing_optimiser())
            optimiser.scale, self._renew = lesson.rate, 0

        # A renewal sees its points dozens of times, and would overfit those of the chains; it draws its own.
        known = KnownPoints(*self._chains.points) if self._chains.size and not renewed else None
        descend_stiff(
            flow,
            optimiser,
            self._log_density(lesson),
            _torsions_of(lesson, wide, generator),
            config,
            generator=generator,
            progress=progress,
            span=lesson.span,
            known=known,
        )
        if renewed:
            # The former optimiser's averages belong to the half that was discarded.
            self._stiff = Optimiser(flow.stiff_parameters, self._config.half_optimisers(refining=True)[1])
        return config.gradient_steps


def _equal(torsions: Tensor) -> FitData:
    """Torsions of chains as fit data: without weights, and without a known density for a control variate."""
    zeros = torsions.new_zeros(len(torsions), dtype=torch.float64)
    return FitData(torsions, zeros, zeros, zeros + math.inf)


@torch.no_grad()
def _half(data: FitData, log_prob: LogProb, coordinates: Tensor) -> FitData:
    """Fit data of one half.

    Args:
        data: Fit data of the whole flow.
        log_prob: Log density of the half, as it was when the points were drawn.
        coordinates: Coordinates that the half depends on.
    """
    log_drawn = log_prob(coordinates).double()
    # Only changes of the divergence matter, so the half's previous density can stand in for the one to be learned.
    return FitData(coordinates, data.log_weights, log_drawn, log_drawn)


def _torsions_of(lesson: Lesson, wide: Wide | None, generator: torch.Generator) -> Callable[[int], Tensor]:
    """Return a function that draws points, partly by their weights to the next density and partly without weights."""
    coordinates, weights = lesson.buffer.coordinates, normalised(lesson.log_ratio)
    if wide is not None:
        coordinates = torch.cat([coordinates, wide.coordinates])
        weights = torch.cat([weights, weights.new_zeros(len(wide.coordinates))])
    cumulated = ((1.0 - UNWEIGHTED) * weights + UNWEIGHTED / len(weights)).cumsum(0)

    def draw(n: int) -> Tensor:
        places = torch.rand(n, generator=generator, dtype=torch.float64, device=generator.device) * cumulated[-1]
        return coordinates[torch.searchsorted(cumulated, places).clamp_max(len(cumulated) - 1)]

    return draw
