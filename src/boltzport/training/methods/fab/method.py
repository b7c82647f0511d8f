"""Flow annealed importance sampling bootstrap: passes towards p^2 / q fill a buffer, the flow learns from it."""

import math
from typing import ClassVar, NamedTuple

import torch

from boltzport.core.errors import RunError
from boltzport.core.parallel import ranks
from boltzport.core.weights import effective_fraction, log_mean, reweighting
from boltzport.flows import Flow
from boltzport.mcmc import follow_acceptance
from boltzport.targets import CountedTarget
from boltzport.training.base import Checkpoint, Method, Progress, State, StepInfo
from boltzport.training.methods.fab.bootstrap import Bootstrapped, bootstrap
from boltzport.training.methods.fab.config import FABConfig
from boltzport.training.methods.fab.replay import Replay, replay_loss, weighted_loss
from boltzport.training.optimiser import Optimiser
from boltzport.training.state import unchanged_on_failure

ACCEPTANCE = 0.65
"""Target acceptance rate of the step size adaptation."""


class FABState(State):
    """State of a training by FAB.

    Args:
        flow: The flow being trained.
        target: Target density.
        config: Settings.
    """

    divided: ClassVar[tuple[str, ...]] = ("replay.*",)

    def __init__(self, flow: Flow, target: CountedTarget, config: FABConfig) -> None:
        super().__init__(flow, target)
        self.optimiser = Optimiser(flow.parameters(), config.optimiser)
        self.replay = Replay.empty(flow.dimension)
        self.step_sizes = torch.full((config.intermediate,), config.step_size, dtype=torch.float64, device=flow.device)

    def result(self) -> Flow:
        """Return the flow to use."""
        return self.optimiser.averaged(self.flow)

    def save_parts(self) -> Checkpoint:
        """Return the state of the optimiser, the buffer and the step sizes."""
        return {"optimiser": self.optimiser.save(), "replay": self.replay.save(), "step_sizes": self.step_sizes}

    def restore_parts(self, checkpoint: Checkpoint) -> None:
        """Restore optimiser, buffer and step sizes."""
        self.optimiser.restore(checkpoint["optimiser"])
        self.replay = Replay.restored(checkpoint["replay"])
        self.step_sizes = checkpoint["step_sizes"]


class Learned(NamedTuple):
    """Losses and gradient norms of some gradient steps; not finite where the update was skipped."""

    losses: list[float]
    norms: list[float]


class FAB(Method[FABState]):
    """The algorithm of Midgley et al.

    Args:
        config: Settings.
    """

    def __init__(self, config: FABConfig) -> None:
        self.config = config

    @property
    def steps(self) -> int:
        """Number of steps."""
        return self.config.steps

    def init(self, flow: Flow, target: CountedTarget) -> FABState:
        """Return the initial state of a training; the flow is the initial density."""
        return FABState(flow, target, self.config)

    def step(self, state: FABState, *, generator: torch.Generator, progress: Progress) -> StepInfo:
        """Run some passes, each followed by its gradient steps; the first step fills the buffer before them."""
        with unchanged_on_failure(state):
            return self._step(state, generator, progress)

    def _step(self, state: FABState, generator: torch.Generator, progress: Progress) -> StepInfo:
        config = self.config
        if state.step == 0:
            for number in range(config.filling):
                self._pass(state, generator)
                progress("buffer", number + 1, config.filling)
        passes, learned = [], Learned([], [])
        for number in range(config.passes):
            passes.append(self._pass(state, generator))
            done = (state.step + number / config.passes) / config.steps
            found = self._learn(state, passes[-1].points, generator, done=done)
            learned.losses.extend(found.losses)
            learned.norms.extend(found.norms)
            progress("passes", number + 1, config.passes)
        if not any(map(math.isfinite, learned.norms)):
            raise RunError(
                f"step {state.step + 1}: no gradient is finite. The flow of step {state.step} is kept; "
                "a smaller learning_rate may help"
            )
        state.step += 1
        return _info(state, passes, learned)

    def _pass(self, state: FABState, generator: torch.Generator) -> Bootstrapped:
        """Anneal a batch, add it to the buffer, and adapt the step sizes to the acceptance rate."""
        config, size = self.config, ranks().each(self.config.batch_size)
        found = bootstrap(
            state.flow,
            state.target,
            size,
            step_sizes=state.step_sizes,
            leapfrogs=config.leapfrog,
            generator=generator,
        )
        failed, drawn = ranks().total([found.failed, size])
        if failed > 0.9 * drawn:
            raise RunError(
                f"{failed:.0f} of {drawn:.0f} annealed points have no finite density; expected most of the "
                "flow's samples to have one. Check the target's log density at points of its layout"
            )
        if config.tune:
            acceptance = found.acceptance.double().clone()
            ranks().average([acceptance])
            state.step_sizes = follow_acceptance(state.step_sizes, acceptance, wanted=ACCEPTANCE)
        state.replay = state.replay.joined(found.points, limit=ranks().share(config.buffer_max))
        return found

    def _learn(self, state: FABState, fresh: Replay, generator: torch.Generator, *, done: float) -> Learned:
        """Do gradient steps on the buffer, or on the fresh batch if there is no buffer."""
        config, learned = self.config, Learned([], [])
        part = 1.0 / (config.steps * config.passes * config.gradient_steps)
        if config.buffer_max:
            wanted = config.gradient_steps * ranks().each(config.batch_size)
            drawn = state.replay.draw(wanted, generator=generator)
            batches = drawn.batches(config.gradient_steps)
        for number in range(config.gradient_steps):
            if config.buffer_max:
                batch = batches[number]
                log_q = state.flow.log_prob(batch.coordinates)
                loss = replay_loss(log_q, batch.log_q, clip=config.clip)
                state.replay = state.replay.seen(batch.indices, log_q.detach())
            else:
                log_q = state.flow.log_prob(fresh.coordinates)
                loss = weighted_loss(log_q, fresh.log_numerators - log_q.detach())
            learned.norms.append(state.optimiser.step(loss, progress=done + number * part))
            learned.losses.append(float(loss.detach()))
        state.gradient_steps += config.gradient_steps
        return learned


def _info(state: FABState, passes: list[Bootstrapped], learned: Learned) -> StepInfo:
    """Metrics over all passes, with each point weighted by the flow that drew it."""
    log_flow, log_weights, log_annealed = (
        ranks().gather(torch.cat([getattr(each, name) for each in passes]))
        for name in ("log_flow", "log_weights", "log_annealed")
    )
    failed = round(ranks().total([sum(each.failed for each in passes)])[0])
    row = StepInfo(
        step=state.step,
        gradient_steps=state.gradient_steps,
        loss=ranks().mean(_mean(learned.losses)),
        gradient_norm=_mean(learned.norms),
        entropy=ranks().mean(_mean([each.entropy for each in passes])),
        # With a single intermediate density, which is p itself, these are the weights of the flow's own samples.
        log_z_path=log_mean(log_annealed).value if len(state.step_sizes) > 1 else None,
        drawn=0.5,
        step_ess=effective_fraction(log_weights),
        acceptance=ranks().mean(_mean(torch.cat([each.acceptance for each in passes]).tolist())),
        learning_rate=state.optimiser.learning_rate,
    )
    return row.weighed(reweighting(log_flow))._replace(failed=failed)


def _mean(values: list[float]) -> float:
    """Mean of the finite values; NaN if there are none."""
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
