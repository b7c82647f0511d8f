"""The methods by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boltzport.errors import InputError
from boltzport.methods.base import Method, WeightedPoints
from boltzport.methods.cmt import CMT, CMTConfig, within_budget
from boltzport.methods.fab import FAB, FABConfig, within_evaluations
from boltzport.methods.forward_kl import ForwardKL, ForwardKLConfig, forward_kl_within
from boltzport.methods.reverse_kl import ReverseKL, ReverseKLConfig, reverse_kl_within
from boltzport.methods.ta_bg import TABG, TABGConfig, within

MethodConfig = CMTConfig | ForwardKLConfig | ReverseKLConfig | FABConfig | TABGConfig
"""Settings of any method: a frozen dataclass of numbers, strings and enumerations."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What there is to know of a method before it runs.

    Attributes:
        config: Its settings.
        build: The method from its settings, and from samples of the target where it needs them.
        within: Settings that evaluate the target no more than so many times.
        needs_samples: Whether it learns from samples of the target instead of from its density.
    """

    config: type[Any]
    build: Callable[[Any, WeightedPoints | None], Method[Any]]
    within: Callable[[Any, float], Any]
    needs_samples: bool = False


def _forward_kl(config: ForwardKLConfig, samples: WeightedPoints | None) -> ForwardKL:
    assert samples is not None
    return ForwardKL(config, samples)


METHODS: dict[str, Entry] = {
    "cmt": Entry(config=CMTConfig, build=lambda config, _: CMT(config), within=within_budget),
    "forward-kl": Entry(config=ForwardKLConfig, build=_forward_kl, within=forward_kl_within, needs_samples=True),
    "reverse-kl": Entry(config=ReverseKLConfig, build=lambda config, _: ReverseKL(config), within=reverse_kl_within),
    "fab": Entry(config=FABConfig, build=lambda config, _: FAB(config), within=within_evaluations),
    "ta-bg": Entry(config=TABGConfig, build=lambda config, _: TABG(config), within=within),
}
"""By the name on the command line."""


def method_entry(name: str) -> Entry:
    """What there is to know of a method.

    Raises:
        InputError: There is no such method.
    """
    if name not in METHODS:
        raise InputError(f"method: expected {', '.join(METHODS)}, got {name}")
    return METHODS[name]
