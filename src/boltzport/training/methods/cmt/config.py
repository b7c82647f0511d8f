"""Settings of constrained mass transport."""

import math
from dataclasses import dataclass, replace
from typing import Literal

from boltzport.core.errors import InputError
from boltzport.training.checks import check
from boltzport.training.fit import FitConfig
from boltzport.training.given import Settings
from boltzport.training.optimiser import Algorithm, OptimiserConfig, Schedule
from boltzport.training.refine import RefineConfig
from boltzport.training.stiff import StiffConfig

PER_COORDINATE = 0.45
"""Number of refining steps per coordinate where `refine` is `auto`."""
RENEWED_PER_COORDINATE = 60
"""Gradient steps per coordinate that retrain the stiff half where `renew` is `auto`."""
EACH = 16
"""Number of stiff samples for each torsion sample that estimate the ESS of the halves after a step."""
FEWEST_HALVES, MOST_HALVES = 16, 256
"""Bounds of the number of torsion samples of that estimate."""
HALVES_SHARE = 0.1
"""Evaluations of that estimate as a fraction of those of the step's buffer, between these bounds."""


@dataclass(frozen=True, kw_only=True)
class CMTConfig(Settings):
    """Settings of constrained mass transport; those below `average` go beyond the paper.

    Attributes:
        trust_region: Largest KL divergence of a step (eps_tr), in nats; infinite for no constraint.
        entropy: Largest decrease of the entropy in a step (eps_ent), in nats; infinite for no constraint. `auto` sets
            it before each step, so that the entropy reaches the target's after the fraction `anneal` of the steps.
        multiplier: Constant multiplier of the trust region, used instead of solving for it; 0 to solve.
        steps: Number of annealing steps.
        gradient_steps: Maximum number of gradient steps per annealing step.
        buffer_size: Number of points drawn for an annealing step.
        batch_size: Number of points per gradient step.
        learning_rate: Peak learning rate.
        warmup: Number of gradient steps over which the learning rate rises to its peak.
        schedule: Learning rate schedule after the warm-up.
        weight_decay: Coefficient of the L2 penalty on the weights, which is added to the gradient.
        max_gradient_norm: Gradients with a larger norm are clipped to this norm.
        average: Decay, per gradient step, of the exponential moving average of the flow's weights; 0 for no averaging.
        anneal: Fraction of the steps after which the entropy should have reached the target's, if `entropy` is `auto`.
        hold_out: Fraction of a buffer that is held out to judge a fit.
        learned: A fit stops when the held-out divergence has fallen to this fraction of its initial value; 0 for never.
        reuse: Number of previous buffers that are used again, weighted with respect to the mixture of all proposals.
        refine: Number of refining steps after the annealing; `auto` sets 0.45 steps per coordinate. Unless `apart`,
            they follow path gradients, so the target needs a gradient, and each uses `gradient_steps` fresh batches.
        refine_rate: Peak learning rate of the refinement.
        refine_batch: Number of points per gradient step of the refinement.
        refine_forward: Weight of the forward KL in the loss of the refinement, 0 to 1; the rest is the reverse KL.
        anchors: Number of samples of earlier flows that keep the refinement from losing modes; 0 for none.
        anchor_batch: Number of anchors per gradient step.
        anchor_part: Weight of the anchors in the loss, 0 to 1.
        patience: Number of steps without a better effective sample size, both multipliers at zero, after which the
            training ends; 0 for a fixed number of steps.
        arrive: Whether the annealing ends as soon as the path reaches the target, after at most `steps` steps. With
            `entropy` at `auto`, the bound is then a fraction of the entropy that is still to be lost.
        algorithm: Optimiser: adam, or soap, which makes more progress in equal time if the gradients have little noise.
        control: Whether fits use a control variate, which removes the noise of the gradient as the fit converges.
        enough: A fit stops when a tenth of its gradient steps lowers the held-out divergence by less than this, in
            nats; 0 for never.
        apart: Whether the two halves of a flow are trained separately: the torsions with the weights of the step
            (`gradient_steps`, `batch_size` and `learning_rate` are theirs), the stiff coordinates by path gradients if
            the target has forces. After the annealing, `refine` such steps follow with a decreasing learning rate.
        stiff_steps: Number of gradient steps of the stiff half per annealing step.
        stiff_batch: Number of points per gradient step of the stiff half during the annealing.
        stiff_rate: Peak learning rate of the stiff half during the annealing.
        stiff_algorithm: Optimiser of the stiff half: adam or soap.
        refine_buffer: Number of points drawn for a refining step, if the halves are trained separately.
        refine_steps: Number of gradient steps of the torsions per refining step; their batch size is `refine_batch`.
        pool: Number of buffers and chain populations of the refinement that the torsions are fitted to.
        broader: Number of points of a refining step, in units of `refine_buffer`, whose torsions are drawn from a flow
            of the middle of the annealing, so that rare conformations are represented by points of moderate weight.
        chains: Number of Markov chains at the density of the step, if the target has forces; 0 for none. Their
            unweighted points train the torsions, and the forward KL of the stiff half.
        leapfrogs: Mean number of leapfrog steps per trajectory; each chain runs one trajectory per step.
        stiff_forward: Weight of the forward KL in the loss of the stiff half, 0 to 1, if there are chains.
        renew: Number of gradient steps that retrain the stiff half from scratch once the path has reached the target,
            because a network that has followed the whole path learns slowly; 0 to keep it. Their learning rate decays
            once, and they use the batch size of the refinement. `auto` sets a number that grows with the number of
            coordinates.
        renew_rate: Peak learning rate of these gradient steps; 0 for that of the annealing.
        refine_stiff_steps: Number of gradient steps of the stiff half per refining step.
        refine_stiff_batch: Number of points per gradient step of the stiff half during the refinement.
        refine_stiff_rate: Peak learning rate of the stiff half during the refinement; 0 for that of the annealing.
        budget: Maximum number of target evaluations, if the number of steps is not known in advance.
        sync_every: Number of gradient steps after which several processes average their weights, for slow networks;
            with 1 they average every gradient.

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
    renew_rate: float = 0.0
    refine_stiff_steps: int = 150
    refine_stiff_batch: int = 1000
    refine_stiff_rate: float = 0.0
    budget: float = math.inf
    sync_every: int = 1

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
            "renew_rate": (0.0, math.inf),
            "sync_every": (1.0, math.inf),
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
                raise InputError(f"{name}: expected 0 if apart is true, got {getattr(self, name)}")
        for name in ("learned", "enough"):
            if getattr(self, name) > 0 and self.hold_out == 0:
                raise InputError(f"{name}: expected hold_out above 0, which judges the fit, got hold_out = 0")

    def refinements(self, dimension: int) -> int:
        """Number of refining steps for a number of coordinates."""
        return round(PER_COORDINATE * dimension) if self.refine == "auto" else self.refine

    def renewal(self, dimension: int) -> StiffConfig:
        """Settings of the descent that retrains the stiff half, for a number of coordinates."""
        steps = RENEWED_PER_COORDINATE * dimension if self.renew == "auto" else self.renew
        return StiffConfig(gradient_steps=steps, batch_size=self.refine_stiff_batch, forward=self.stiff_forward)

    @property
    def broader_points(self) -> int:
        """Number of points of a refining step whose torsions are drawn from a broader flow."""
        return round(self.broader * self.refine_buffer)

    @property
    def optimiser(self) -> OptimiserConfig:
        """Settings of the optimiser."""
        return OptimiserConfig.of(self)

    @property
    def refining(self) -> OptimiserConfig:
        """Settings of the optimiser of the refinement."""
        return replace(self.optimiser, learning_rate=self.refine_rate, schedule=Schedule.COSINE)

    @property
    def refinement(self) -> RefineConfig:
        """Settings of a refining step."""
        return RefineConfig(
            steps=self.gradient_steps,
            batch=self.refine_batch,
            forward=self.refine_forward,
            anchor_batch=self.anchor_batch,
            anchor_part=self.anchor_part,
        )

    @property
    def fit(self) -> FitConfig:
        """Settings of a fit."""
        return self._fit(self.gradient_steps, self.batch_size)

    def half_fit(self, *, refining: bool) -> FitConfig:
        """Settings of a fit of one half, during or after the annealing."""
        return self._fit(self.refine_steps, self.refine_batch) if refining else self.fit

    def stiff_descent(self, *, refining: bool) -> StiffConfig:
        """Settings of a descent of the stiff half, during or after the annealing."""
        steps, batch = (
            (self.refine_stiff_steps, self.refine_stiff_batch) if refining else (self.stiff_steps, self.stiff_batch)
        )
        return StiffConfig(gradient_steps=steps, batch_size=batch, forward=self.stiff_forward)

    def half_optimisers(self, *, refining: bool) -> tuple[OptimiserConfig, OptimiserConfig]:
        """Settings of the optimisers of the torsions and of the stiff half."""
        torsions = self.refining if refining else self.optimiser
        rate = (self.refine_stiff_rate if refining else 0.0) or self.stiff_rate
        return torsions, replace(torsions, learning_rate=rate, algorithm=self.stiff_algorithm)

    def renewing_optimiser(self) -> OptimiserConfig:
        """Settings of the optimiser that retrains the stiff half."""
        _, stiff = self.half_optimisers(refining=False)
        return replace(stiff, learning_rate=self.renew_rate or stiff.learning_rate)

    def step_evaluations(self, *, refining: bool) -> int:
        """Planned number of target evaluations per step."""
        if not self.apart:
            return self.gradient_steps * self.refine_batch if refining else self.buffer_size
        stiff = self.stiff_descent(refining=refining)
        drawn = self.refine_buffer + self.broader_points if refining else self.buffer_size
        chains = round(self.chains * (1.5 * self.leapfrogs + 1.0))
        return drawn + chains + stiff.gradient_steps * stiff.batch_size + self.halves(refining=refining) * EACH

    def halves(self, *, refining: bool) -> int:
        """Number of torsion samples that estimate the ESS of the halves after a step.

        Example:
            >>> CMTConfig(buffer_size=60_000).halves(refining=False), CMTConfig(buffer_size=9600).halves(refining=False)
            (256, 60)
        """
        drawn = self.refine_buffer if refining else self.buffer_size
        return min(MOST_HALVES, max(FEWEST_HALVES, int(HALVES_SHARE * drawn) // EACH))

    def _fit(self, gradient_steps: int, batch_size: int) -> FitConfig:
        return FitConfig(
            gradient_steps=gradient_steps,
            batch_size=batch_size,
            hold_out=self.hold_out,
            learned=self.learned,
            enough=self.enough,
            check_every=max(1, gradient_steps // 10),
        )
