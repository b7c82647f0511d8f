"""Registry of the methods by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boltzport.core.errors import InputError
from boltzport.training.base import Method, WeightedPoints
from boltzport.training.methods import cmt, fab, forward_kl, reverse_kl, ta_bg
from boltzport.training.methods.cmt import CMT, CMTConfig
from boltzport.training.methods.fab import FAB, FABConfig
from boltzport.training.methods.forward_kl import ForwardKL, ForwardKLConfig
from boltzport.training.methods.reverse_kl import ReverseKL, ReverseKLConfig
from boltzport.training.methods.ta_bg import TABG, TABGConfig

MethodConfig = CMTConfig | ForwardKLConfig | ReverseKLConfig | FABConfig | TABGConfig
"""Settings of any method: a frozen dataclass of numbers, strings and enumerations."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Registry entry of a method.

    Attributes:
        config: Class of its settings.
        build: Builds the method from its settings, and from samples of the target if it needs them.
        within_budget: Scales the settings so that they evaluate the target at most a given number of times.
        needs_samples: Whether it learns from samples of the target instead of its density.
    """

    config: type[Any]
    build: Callable[[Any, WeightedPoints | None], Method[Any]]
    within_budget: Callable[[Any, float], Any]
    needs_samples: bool = False


def _forward_kl(config: ForwardKLConfig, samples: WeightedPoints | None) -> ForwardKL:
    assert samples is not None
    return ForwardKL(config, samples)


METHODS: dict[str, Entry] = {
    "cmt": Entry(config=CMTConfig, build=lambda config, _: CMT(config), within_budget=cmt.within_budget),
    "forward-kl": Entry(
        config=ForwardKLConfig, build=_forward_kl, within_budget=forward_kl.within_budget, needs_samples=True
    ),
    "reverse-kl": Entry(
        config=ReverseKLConfig,
        build=lambda config, _: ReverseKL(config),
        within_budget=reverse_kl.within_budget,
    ),
    "fab": Entry(config=FABConfig, build=lambda config, _: FAB(config), within_budget=fab.within_budget),
    "ta-bg": Entry(config=TABGConfig, build=lambda config, _: TABG(config), within_budget=ta_bg.within_budget),
}
"""Methods by their name on the command line."""


def method_entry(name: str) -> Entry:
    """Return the registry entry of a method.

    Raises:
        InputError: There is no such method.
    """
    if name not in METHODS:
        raise InputError(f"method: expected {', '.join(METHODS)}, got {name}")
    return METHODS[name]
