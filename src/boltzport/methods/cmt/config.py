"""Settings of constrained mass transport."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from boltzport.errors import InputError
from boltzport.methods.checks import check
from boltzport.methods.fit import FitConfig
from boltzport.methods.given import Settings
from boltzport.methods.optimiser import Algorithm, OptimiserConfig, Schedule
from boltzport.methods.refine import RefineConfig
from boltzport.methods.stiff import StiffConfig

PER_COORDINATE = 0.45
"""Steps after the annealing for every coordinate, where their number is not given."""
RENEWED_PER_COORDINATE = 60
"""Gradient steps that renew the stiff half for every coordinate, where their number is not given."""
HALVES, EACH = 256, 16
"""Torsions, and stiff points for each, that tell after a step how good the halves are."""


@dataclass(frozen=True, kw_only=True)
class CMTConfig(Settings):
    """Settings of constrained mass transport; those below `average` go beyond the paper.

    Attributes:
        trust_region: Largest KL divergence of a step, eps_tr, nats; infinite for no constraint.
        entropy: Largest loss of entropy in a step, eps_ent, nats; infinite for no constraint; `auto` sets it before
            each step, so that the entropy reaches the target's after the part `anneal` of the steps.
        multiplier: A constant multiplier of the trust region instead of a solved one; 0 for none.
        steps: Annealing steps.
        gradient_steps: Gradient steps of an annealing step, at most.
        buffer_size: Points drawn for an annealing step.
        batch_size: Points of a gradient step.
        learning_rate: Highest learning rate.
        warmup: Gradient steps over which it rises.
        schedule: How it falls.
        weight_decay: Added to the gradient, in units of the weights.
        max_gradient_norm: Longer gradients are shortened to it.
        average: Weight of the past in the running average of the flow's weights, per gradient step; 0 for none.
        anneal: Part of the steps after which the entropy is to have reached the target's, where its bound is `auto`.
        hold_out: Fraction of a buffer that judges a fit.
        learned: A fit stops when it has this part of the step's divergence left; 0 for never.
        reuse: Former buffers that are used again, with weights for all proposals.
        refine: Steps after the annealing that descend by path gradients, where the target has a gradient; each has
            `gradient_steps` batches of fresh points. `auto` for nearly half as many as there are coordinates.
        refine_rate: Highest learning rate of these.
        refine_batch: Points of a gradient step of these.
        refine_forward: Part of the forward divergence in them, 0 to 1; the rest is the reverse one.
        anchors: Points of former flows that keep a refinement from forgetting modes; 0 for none.
        anchor_batch: How many of them a gradient step uses.
        anchor_part: Their part of the loss, 0 to 1.
        patience: Steps without a better effective sample size, both multipliers at zero, after which the training
            ends; 0 for a fixed number of steps.
        arrive: The annealing ends where the path has reached the target, after so many steps as the target asks for;
            `steps` is the most of them. The entropy bound `auto` is then a part of what is still to be lost.
        algorithm: How gradients become steps: adam, or soap, which gets farther in equal time where gradients have
            little noise.
        control: Fits have a control variate, which takes their noise away where they are done.
        enough: A fit stops when a tenth of its gradient steps gains less than this on the points held out, nats; 0 for
            never.
        apart: A flow of two halves learns them apart: the torsions by the weights of the step (`gradient_steps`,
            `batch_size` and `learning_rate` are theirs), the stiff coordinates by path gradients where the target has
            forces. After the annealing, `refine` more such steps follow, at a rate that falls.
        stiff_steps: Gradient steps of the stiff half in an annealing step.
        stiff_batch: Points of such a gradient step.
        stiff_rate: Highest learning rate of the stiff half in the annealing.
        stiff_algorithm: How gradients become steps there.
        refine_buffer: Points drawn for a refining step of halves.
        refine_steps: Gradient steps of the torsions in it; `refine_batch` is their batch.
        pool: Buffers of the refinement whose torsions are learned from.
        broader: Points of a refining step, in units of `refine_buffer`, whose torsions are of a flow from the middle of
            the annealing, so that rare conformations have points of moderate weight to be learned from.
        chains: Markov chains at the density of the step, where the target has forces: points without weights that the
            torsions learn from, and that the stiff half learns the forward divergence from; 0 for none.
        leapfrogs: Mean number of leapfrog steps of a chain's trajectory; each step has one trajectory.
        stiff_forward: Part of the forward divergence in the descent of the stiff half, 0 to 1, where there are chains.
        renew: Gradient steps in which the stiff half learns the target from nothing once the path has arrived, as what
            has followed the whole path learns slowly; 0 to go on with it. They have the rate of the annealing, which
            falls once, and the batch of the refinement. `auto` for a number that grows with that of the coordinates.
        refine_stiff_steps: Gradient steps of the stiff half in it.
        refine_stiff_batch: Points of such a gradient step.
        refine_stiff_rate: Highest learning rate of the stiff half in it; 0 for that of the annealing.
        budget: Most evaluations of the target where the number of steps is not known before.

    Example:
        >>> import boltzport as bp
        >>> bp.CMT(trust_region=0.3).trust_region
        0.3
    """

    trust_region: float = 0.3
    entropy: float | Literal["auto"] = "auto"
    multiplier: float = 0.0
    steps: int = 40
    gradient_steps: int = 250
    buffer_size: int = 50_000
    batch_size: int = 1000
    learning_rate: float = 1e-3
    warmup: int = 100
    schedule: Schedule = Schedule.COSINE
    weight_decay: float = 0.0
    max_gradient_norm: float = 100.0
    average: float = 0.0
    anneal: float = 0.5
    hold_out: float = 0.05
    learned: float = 0.0
    reuse: int = 0
    refine: int | Literal["auto"] = 0
    refine_rate: float = 5e-4
    refine_batch: int = 1000
    refine_forward: float = 0.8
    anchors: int = 0
    anchor_batch: int = 1000
    anchor_part: float = 0.5
    patience: int = 0
    arrive: bool = False
    algorithm: Algorithm = Algorithm.ADAM
    control: bool = False
    enough: float = 0.0
    apart: bool = False
    stiff_steps: int = 60
    stiff_batch: int = 500
    stiff_rate: float = 1e-3
    stiff_algorithm: Algorithm = Algorithm.ADAM
    refine_buffer: int = 100_000
    refine_steps: int = 100
    pool: int = 8
    broader: float = 0.0
    chains: int = 0
    leapfrogs: int = 8
    stiff_forward: float = 0.5
    renew: int | Literal["auto"] = 0
    refine_stiff_steps: int = 150
    refine_stiff_batch: int = 1000
    refine_stiff_rate: float = 0.0
    budget: float = math.inf

    def __post_init__(self) -> None:
        ranges: dict[str, tuple[float, float]] = {
            "multiplier": (0.0, math.inf),
            "steps": (1.0, math.inf),
            "gradient_steps": (1.0, math.inf),
            "buffer_size": (2.0, math.inf),
            "batch_size": (1.0, math.inf),
            "warmup": (0.0, math.inf),
            "weight_decay": (0.0, math.inf),
            "average": (0.0, 0.999999),
            "anneal": (0.01, 1.0),
            "hold_out": (0.0, 0.5),
            "learned": (0.0, 1.0),
            "reuse": (0.0, 100.0),
            "refine_batch": (2.0, math.inf),
            "refine_forward": (0.0, 1.0),
            "anchors": (0.0, math.inf),
            "anchor_batch": (1.0, math.inf),
            "anchor_part": (0.0, 1.0),
            "patience": (0.0, math.inf),
            "enough": (0.0, math.inf),
            "stiff_steps": (0.0, math.inf),
            "stiff_batch": (2.0, math.inf),
            "refine_buffer": (2.0, math.inf),
            "refine_steps": (1.0, math.inf),
            "pool": (1.0, math.inf),
            "broader": (0.0, 1.0),
            "chains": (0.0, math.inf),
            "leapfrogs": (1.0, math.inf),
            "stiff_forward": (0.0, 1.0),
            "refine_stiff_steps": (0.0, math.inf),
            "refine_stiff_batch": (2.0, math.inf),
            "refine_stiff_rate": (0.0, math.inf),
        }
        for name in ("refine", "renew"):
            if getattr(self, name) != "auto":
                ranges[name] = (0.0, math.inf)
        positive = [
            "trust_region",
            "learning_rate",
            "max_gradient_norm",
            "refine_rate",
            "stiff_rate",
            "budget",
        ]
        check(self, ranges=ranges, positive=positive if self.entropy == "auto" else [*positive, "entropy"])
        for name in ("reuse", "learned"):
            if self.apart and getattr(self, name):
                raise InputError(f"{name}: expected 0 where halves are learned apart, got {getattr(self, name)}")
        for name in ("learned", "enough"):
            if getattr(self, name) > 0 and self.hold_out == 0:
                raise InputError(f"{name}: expected a hold_out above 0 to judge the fit with, got hold_out = 0")

    def refinements(self, dimension: int) -> int:
        """Steps after the annealing, with so many coordinates."""
        return round(PER_COORDINATE * dimension) if self.refine == "auto" else self.refine

    def renewal(self, dimension: int) -> StiffConfig:
        """The settings of the descent that renews the stiff half, with so many coordinates."""
        steps = RENEWED_PER_COORDINATE * dimension if self.renew == "auto" else self.renew
        return StiffConfig(gradient_steps=steps, batch_size=self.refine_stiff_batch, forward=self.stiff_forward)

    @property
    def broader_points(self) -> int:
        """Points of a refining step whose torsions are of a broader flow."""
        return round(self.broader * self.refine_buffer)

    @property
    def optimiser(self) -> OptimiserConfig:
        """The settings of the optimiser among these."""
        return OptimiserConfig.of(self)

    @property
    def refining(self) -> OptimiserConfig:
        """The settings of the optimiser that refines."""
        return replace(self.optimiser, learning_rate=self.refine_rate, schedule=Schedule.COSINE)

    @property
    def refinement(self) -> RefineConfig:
        """The settings of a refining step among these."""
        return RefineConfig(
            steps=self.gradient_steps,
            batch=self.refine_batch,
            forward=self.refine_forward,
            anchor_batch=self.anchor_batch,
            anchor_part=self.anchor_part,
        )

    @property
    def fit(self) -> FitConfig:
        """The settings of a fit among these."""
        return self._fit(self.gradient_steps, self.batch_size)

    def half_fit(self, *, refining: bool) -> FitConfig:
        """The settings of a fit of one half, in the annealing or after it."""
        return self._fit(self.refine_steps, self.refine_batch) if refining else self.fit

    def stiff_descent(self, *, refining: bool) -> StiffConfig:
        """The settings of a descent of the stiff half, in the annealing or after it."""
        steps, batch = (
            (self.refine_stiff_steps, self.refine_stiff_batch) if refining else (self.stiff_steps, self.stiff_batch)
        )
        return StiffConfig(gradient_steps=steps, batch_size=batch, forward=self.stiff_forward)

    def half_optimisers(self, *, refining: bool) -> tuple[OptimiserConfig, OptimiserConfig]:
        """The settings of the optimisers of the torsions and of the stiff half."""
        torsions = self.refining if refining else self.optimiser
        rate = (self.refine_stiff_rate if refining else 0.0) or self.stiff_rate
        return torsions, replace(torsions, learning_rate=rate, algorithm=self.stiff_algorithm)

    def step_evaluations(self, *, refining: bool) -> int:
        """Evaluations of the target in a step, as planned."""
        if not self.apart:
            return self.gradient_steps * self.refine_batch if refining else self.buffer_size
        stiff = self.stiff_descent(refining=refining)
        drawn = self.refine_buffer + self.broader_points if refining else self.buffer_size
        chains = round(self.chains * (1.5 * self.leapfrogs + 1.0))
        return drawn + chains + stiff.gradient_steps * stiff.batch_size + HALVES * EACH

    def _fit(self, gradient_steps: int, batch_size: int) -> FitConfig:
        return FitConfig(
            gradient_steps=gradient_steps,
            batch_size=batch_size,
            hold_out=self.hold_out,
            learned=self.learned,
            enough=self.enough,
            check_every=max(1, gradient_steps // 10),
        )
