"""Settings of constrained mass transport."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from boltzport.errors import InputError
from boltzport.methods.checks import check
from boltzport.methods.fit import FitConfig
from boltzport.methods.optimiser import OptimiserConfig, Schedule
from boltzport.methods.refine import RefineConfig


@dataclass(frozen=True, kw_only=True)
class CMTConfig:
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
        learning_rate: Highest learning rate of Adam.
        warmup: Gradient steps over which it rises.
        schedule: How it falls.
        weight_decay: Adam's.
        max_gradient_norm: Longer gradients are shortened to it.
        average: Weight of the past in the running average of the flow's weights, per gradient step; 0 for none.
        anneal: Part of the steps after which the entropy is to have reached the target's, where its bound is `auto`.
        hold_out: Fraction of a buffer that judges a fit.
        learned: A fit stops when it has this part of the step's divergence left; 0 for never.
        reuse: Former buffers that are used again, with weights for all proposals.
        refine: Steps after the annealing that descend by path gradients, where the target has a gradient; each has
            `gradient_steps` batches of fresh points.
        refine_rate: Highest learning rate of these.
        refine_batch: Points of a gradient step of these.
        refine_forward: Part of the forward divergence in them, 0 to 1; the rest is the reverse one.
        anchors: Points of former flows that keep a refinement from forgetting modes; 0 for none.
        anchor_batch: How many of them a gradient step uses.
        anchor_part: Their part of the loss, 0 to 1.
        patience: Steps without a better effective sample size, both multipliers at zero, after which the training
            ends; 0 for a fixed number of steps.
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
    refine: int = 0
    refine_rate: float = 5e-4
    refine_batch: int = 1000
    refine_forward: float = 0.8
    anchors: int = 0
    anchor_batch: int = 1000
    anchor_part: float = 0.5
    patience: int = 0

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
            "refine": (0.0, math.inf),
            "refine_batch": (2.0, math.inf),
            "refine_forward": (0.0, 1.0),
            "anchors": (0.0, math.inf),
            "anchor_batch": (1.0, math.inf),
            "anchor_part": (0.0, 1.0),
            "patience": (0.0, math.inf),
        }
        positive = ["trust_region", "learning_rate", "max_gradient_norm", "refine_rate"]
        check(self, ranges=ranges, positive=positive if self.entropy == "auto" else [*positive, "entropy"])
        if self.learned > 0 and self.hold_out == 0:
            raise InputError("learned: expected a hold_out above 0 to judge the fit with, got hold_out = 0")

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
        return FitConfig(
            gradient_steps=self.gradient_steps,
            batch_size=self.batch_size,
            hold_out=self.hold_out,
            learned=self.learned,
            check_every=max(1, self.gradient_steps // 10),
        )
