"""Ablations of the paper, and of our additions to it, as settings of constrained mass transport."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from boltzport.core.errors import InputError
from boltzport.training.methods import CMTConfig, MethodConfig

STEPS = 24
"""Number of annealing steps of a variant whose preset ends the annealing at the target; `--set steps=N` changes it."""


class Variant(NamedTuple):
    """One variant of a method.

    Attributes:
        name: Name of the variant, and of the directories of its runs.
        method: Name of the method.
        settings: Settings as `key=value`, in addition to the preset's.
    """

    name: str
    method: str
    settings: tuple[str, ...]


def _cmt(name: str, *settings: str) -> Variant:
    # Refinement would hide the effect of the annealing.
    return Variant(name, "cmt", (*settings, "refine=0"))


# A constant multiplier satisfies no bound, so the bounds and their guard are removed.
_UNBOUNDED = ("trust_region=inf", "entropy=inf")

VARIANTS: dict[str, tuple[Variant, ...]] = {
    "constraints": (
        _cmt("both"),
        _cmt("trust-region", "entropy=inf"),
        _cmt("entropy", "trust_region=inf"),
        _cmt("none", *_UNBOUNDED),
    ),
    "trust-region": tuple(
        _cmt(f"trust-region-{bound}", f"trust_region={bound}") for bound in ("0.1", "0.3", "1.0", "inf")
    ),
    "entropy": tuple(_cmt(f"entropy-{bound}", f"entropy={bound}") for bound in ("auto", "0.4", "0.8", "1.6", "inf")),
    "multiplier": (
        _cmt("solved", "entropy=inf"),
        # The last is the paper's.
        *(_cmt(f"multiplier-{value}", f"multiplier={value}", *_UNBOUNDED) for value in ("1", "10", "43.3")),
    ),
    # Additions to the paper's algorithm, which has one loss for all coordinates.
    "additions": (
        _cmt("plain", "apart=false"),
        _cmt("learned", "apart=false", "learned=0.2"),
        _cmt("averaged", "apart=false", "average=0.99"),
        _cmt("reused", "apart=false", "reuse=2"),
    ),
}
"""Variants of each ablation, by name."""


def variants_named(name: str) -> tuple[Variant, ...]:
    """The variants of an ablation.

    Raises:
        InputError: There is no such ablation.
    """
    if name not in VARIANTS:
        raise InputError(f"variants: expected {', '.join(VARIANTS)}, got {name}")
    return VARIANTS[name]


def with_equal_steps(settings: MethodConfig, given: Sequence[str]) -> MethodConfig:
    """Settings of a variant whose number of annealing steps does not depend on the path.

    Where a preset ends the annealing at the target, a variant without constraints would get a single step, and one with
    a tight bound a hundred. As in the paper, all variants get the same number of steps, and train on after the path has
    reached the target.

    Args:
        settings: Settings of the variant.
        given: Names of the settings that the user or the variant gave: `steps` and `arrive` are kept if they are.
    """
    if not isinstance(settings, CMTConfig) or not settings.arrive or "arrive" in given:
        return settings
    steps = settings.steps if "steps" in given else STEPS
    if math.isfinite(settings.budget):
        steps = max(1, min(steps, int(settings.budget // settings.step_evaluations(refining=False))))
    return replace(settings, arrive=False, steps=steps)
