"""Range checks of settings."""

import math
from collections.abc import Iterable, Mapping

from boltzport.core.errors import InputError

COMMON = {
    "steps": (1.0, math.inf),
    "gradient_steps": (1.0, math.inf),
    "batch_size": (1.0, math.inf),
    "warmup": (0.0, math.inf),
    "weight_decay": (0.0, math.inf),
    "average": (0.0, 0.999999),
}
"""Ranges of settings that mean the same in every method."""
FINITE = ("weight_decay", "warmup", "multiplier")
"""Settings that are finite, beside all rates; others may be infinite, as a limit that is never reached."""
POSITIVE = ("learning_rate", "max_gradient_norm")
"""Settings that are greater than zero in every method."""


def check(
    settings: object, *, ranges: Mapping[str, tuple[float, float]] | None = None, positive: Iterable[str] = ()
) -> None:
    """Check that settings are within their ranges; those of `COMMON` and `POSITIVE` are checked in any case.

    Args:
        settings: Record of settings.
        ranges: Smallest and largest allowed value of each further field, by name.
        positive: Names of further fields that must be greater than zero.

    Raises:
        InputError: A value is out of range or NaN.
    """
    common = {name: range_ for name, range_ in COMMON.items() if hasattr(settings, name)}
    for name, (lower, upper) in (common | dict(ranges or {})).items():
        if not lower <= getattr(settings, name) <= upper or _infinite(settings, name):
            raise InputError(f"{name}: expected {_range(lower, upper)}, got {getattr(settings, name)}")
    for name in (*(name for name in POSITIVE if hasattr(settings, name)), *positive):
        if not getattr(settings, name) > 0 or _infinite(settings, name):
            raise InputError(f"{name}: expected more than 0{_and_finite(name)}, got {getattr(settings, name)}")


def _and_finite(name: str) -> str:
    return " and finite" if name in FINITE or name.endswith("rate") else ""


def _infinite(settings: object, name: str) -> bool:
    return (name in FINITE or name.endswith("rate")) and math.isinf(getattr(settings, name))


def _range(lower: float, upper: float) -> str:
    return f"at least {lower:g}" if math.isinf(upper) else f"{lower:g} to {upper:g}"
