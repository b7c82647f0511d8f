"""Temperature-annealed Boltzmann generators (Schopmans and Friederich 2025).

The reverse divergence loses no modes at a high temperature. From there a temperature ladder leads down: samples of the
flow at one temperature are reweighted to the next lower one, resampled, and fitted by maximum likelihood.
"""

import copy
import math
from statistics import fmean

import torch

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import clipped, effective_fraction, log_mean, reweighting
from boltzport.flows import Flow
from boltzport.targets import CountedTarget
from boltzport.training.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.training.buffer import Buffer, draw
from boltzport.training.fit import FitData, FitInfo, fit
from boltzport.training.methods.cmt.path import log_z_ratio
from boltzport.training.methods.ta_bg.config import TABGConfig, temperatures
from boltzport.training.optimiser import Optimiser
from boltzport.training.path_gradient import path_loss
from boltzport.training.resample import resampled
from boltzport.training.reverse import reverse_loss
from boltzport.training.state import unchanged_on_failure

FEWEST = 10.0
"""Smallest effective sample size for a fit: fewer points lead to overfitting."""


class TABGState(State):
    """State of a training by temperature annealing.

    Args:
        flow: The flow being trained.
        target: Target density.
        config: Settings.
    """

    def __init__(self, flow: Flow, target: CountedTarget, config: TABGConfig) -> None:
        super().__init__(flow, target)
        self.config = config
        self.log_z_path = math.nan
        self.optimiser = Optimiser(flow.parameters(), config.pretraining)

    def result(self) -> Flow:
        """Return the flow to use."""
        return copy.deepcopy(self.flow)

    def save_parts(self) -> Checkpoint:
        """Return the log of the normalising constant and the state of the optimiser."""
        return {"log_z_path": self.log_z_path, "optimiser": self.optimiser.save()}

    def restore_parts(self, checkpoint: Checkpoint) -> None:
        """Restore the log of the normalising constant and the optimiser."""
        self.log_z_path = checkpoint["log_z_path"]
        annealing = self.step > self.config.pretrain_steps
        config = self.config.annealing if annealing else self.config.pretraining
        self.optimiser = Optimiser(self.flow.parameters(), config)
        self.optimiser.restore(checkpoint["optimiser"])


class TABG(Method[TABGState]):
    """Temperature-annealed Boltzmann generators: steps of pre-training, then one fit per step down the ladder.

    Args:
        config: Settings.
    """

    def __init__(self, config: TABGConfig) -> None:
        self.config = config
        self._powers = [1.0 / temperature for temperature in temperatures(config)]

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.config.pretrain_steps + self.config.fits

    def init(self, flow: Flow, target: CountedTarget) -> TABGState:
        """Return the initial state of a training."""
        return TABGState(flow, target, self.config)

    def step(self, state: TABGState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Do a part of the pre-training, or a fit at the next temperature.

        Raises:
            RunError: The step failed; the state is unchanged.
        """
        take = self._pretrain if state.step < self.config.pretrain_steps else self._anneal
        with unchanged_on_failure(state):
            return take(state, generator, progress)

    def _pretrain(self, state: TABGState, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Minimise the reverse divergence to the target at the high temperature, on fresh points."""
        config, power = self.config, self._powers[0]
        count = config.pretrain_gradient_steps
        make = path_loss if config.path_gradient else reverse_loss
        losses, norms, found = [], [], []
        for done in range(count):
            part = make(
                state.flow,
                state.target,
                ranks().each(config.pretrain_batch),
                inverse_temperature=power,
                leave_out=ranks().share(config.remove_highest),
                generator=generator,
            )
            norm = state.optimiser.step(part.loss, progress=(state.step + done / count) / config.pretrain_steps)
            # A step whose gradient is not finite is skipped; single ones, from clashing points, are harmless.
            if math.isfinite(norm):
                losses.append(float(part.loss.detach()))
                norms.append(norm)
            found.append((part.log_q, part.log_p))
            progress("pre-training", done + 1, count)
        if len(norms) <= count / 2:
            raise RunError(
                f"step {state.step + 1}: {count - len(norms)} of {count} gradients of the pre-training are not finite; "
                "a smaller pretrain_rate, a higher temperature (hot) or a larger remove_highest may help"
            )
        log_q, log_p = (ranks().gather(torch.cat(columns)) for columns in zip(*found, strict=True))
        good = log_q.isfinite() & log_p.isfinite()
        if good.sum() < len(good) / 10:
            raise RunError(
                f"step {state.step + 1}: {int((~good).sum())} of {len(good)} points have no finite density or slope; "
                "check the target's log density at points of its layout"
            )
        state.step += 1
        state.gradient_steps += count
        return _row(
            state,
            log_q[good],
            log_p[good],
            failed=int((~good).sum()),
            power=power,
            step_ess=effective_fraction(power * log_p[good] - log_q[good]),
            drawn=0.5,
            # The value of the path gradient loss has no meaning.
            loss=None if config.path_gradient else ranks().mean(fmean(losses)),
            gradient_norm=fmean(norms),
        )

    def _anneal(self, state: TABGState, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Draw, reweight to the next temperature, resample, fit."""
        config, rung = self.config, state.step - self.config.pretrain_steps
        if rung == 0:
            state.optimiser = Optimiser(state.flow.parameters(), config.annealing)
        here, there = self._powers[rung : rung + 2]
        buffer, failed = draw(state.flow, state.target, config.buffer_size, generator=generator, progress=progress)
        log_weights = clipped(there * buffer.log_p - buffer.log_q, config.clip)
        everything = ranks().gather(log_weights)
        step_ess, size = effective_fraction(everything), len(everything)
        if step_ess * size < FEWEST:
            raise RunError(
                f"step {state.step + 1}: reweighted from temperature {1 / here:.3g} to {1 / there:.3g} (in units of "
                f"the target's), {size} points have an ESS of {step_ess * size:.1f}; expected {FEWEST:g} "
                "or more. The flow is too far from its temperature or the rung too large; more pretrain_steps, rungs "
                "or repeats, or a larger buffer_size, may help"
            )
        fitted = self._fit(state, buffer, log_weights, generator, progress)
        log_q, log_p = ranks().gather(buffer.log_q), ranks().gather(buffer.log_p)
        failed = round(ranks().total([failed])[0])
        self._advance(state, log_q, log_p, failed=failed, here=here, there=there)
        state.step += 1
        state.gradient_steps += fitted.gradient_steps
        row = _row(
            state,
            log_q,
            log_p,
            failed=failed,
            power=there,
            step_ess=step_ess,
            drawn=0.0,
            loss=fitted.loss,
            gradient_norm=fitted.gradient_norm,
        )
        # Above the target's temperature, this is the constant of another density.
        return row._replace(log_z_path=state.log_z_path if there == 1.0 else None)

    def _fit(
        self,
        state: TABGState,
        buffer: Buffer,
        log_weights: torch.Tensor,
        generator: torch.Generator,
        progress: Progress,
    ) -> FitInfo:
        """Fit the flow to resampled points by maximum likelihood."""
        chosen = resampled(log_weights, ranks().share(self.config.resampled_to), generator=generator)
        equal = torch.zeros_like(chosen, dtype=torch.float64)
        data = FitData(coordinates=buffer.coordinates[chosen], log_weights=equal, log_density=equal)
        fitted = fit(
            state.flow.log_prob,
            state.optimiser,
            data,
            self.config.fit,
            generator=generator,
            progress=progress,
            span=(0.0, 1.0),
        )
        if not math.isfinite(fitted.loss):
            raise RunError(
                f"step {state.step + 1}: the gradient of the fit is not finite. The flow of step {state.step} is kept; "
                "a smaller learning_rate may help"
            )
        return fitted

    def _advance(
        self, state: TABGState, log_q: torch.Tensor, log_p: torch.Tensor, *, failed: int, here: float, there: float
    ) -> None:
        """Carry the log of the normalising constant to the next temperature.

        It starts with importance sampling at the high temperature, where the flow covers every mode, so it includes the
        mass of modes that are lost at lower temperatures.
        """
        if state.step == self.config.pretrain_steps:
            state.log_z_path = log_mean(_padded(here * log_p - log_q, failed)).value
        if there != here:
            state.log_z_path += log_z_ratio(log_q, here * log_p, there * log_p)


def _row(
    state: TABGState,
    log_q: torch.Tensor,
    log_p: torch.Tensor,
    *,
    failed: int,
    power: float,
    step_ess: float,
    drawn: float,
    loss: float | None,
    gradient_norm: float,
) -> StepInfo:
    """Row of metrics from the points that the step has drawn."""
    row = StepInfo(
        step=state.step,
        gradient_steps=state.gradient_steps,
        loss=loss,
        gradient_norm=gradient_norm,
        entropy=-float(log_q.mean()),
        drawn=drawn,
        step_ess=step_ess,
        alpha=power,
        learning_rate=state.optimiser.learning_rate,
    )
    return row.weighed(reweighting(_padded(log_p - log_q, failed)))


def _padded(log_weights: torch.Tensor, failed: int) -> torch.Tensor:
    """Log-weights of all points; failed points have weight zero."""
    return torch.cat([log_weights, log_weights.new_full((failed,), -math.inf)])
